"""The classification tasks of Crammer & Lee (2010), sec. 5, as far as their data can be had: two classes, rows of length 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import h5py
import numpy as np
from scipy.sparse import csr_matrix
from shared.real_data import path

FOLDS = 10
NEWSGROUPS = (
    "comp.sys.ibm.pc.hardware/comp.sys.mac.hardware comp.graphics/comp.windows.x rec.autos/rec.motorcycles "
    "rec.sport.baseball/rec.sport.hockey sci.electronics/sci.med sci.crypt/sci.space talk.politics.guns/talk.politics.mideast "
    "alt.atheism/soc.religion.christian talk.politics.misc/talk.religion.misc comp.os.ms-windows.misc/misc.forsale"
)


@dataclass(frozen=True)
class Task:
    """CSR rows of length 1 with labels; folds are lists of (training rows, test rows)."""

    name: str
    group: str
    X: csr_matrix
    y: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    classes: int = 2


def unit_rows(X: csr_matrix) -> csr_matrix:
    """Rows scaled to length 1."""
    norm = np.sqrt(np.add.reduceat(np.append(X.data.astype(float) ** 2, 0.0), np.minimum(X.indptr[:-1], len(X.data))))
    norm[np.diff(X.indptr) == 0] = 1.0
    return csr_matrix((X.data / np.repeat(np.maximum(norm, 1e-300), np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape)


def fixed(y: np.ndarray, train: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """One split: the rows of a mask train, the others test."""
    order = np.random.default_rng(seed).permutation(len(y))
    return [(order[train[order]], order[~train[order]])]


def crossed(y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ten-fold cross-validation."""
    part = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    return [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(FOLDS)]


def _csr(name: str) -> tuple[csr_matrix, h5py.File]:
    file = h5py.File(path(name))
    shape = tuple(int(n) for n in file.attrs.get("shape", file["X"].attrs.get("shape")))
    return unit_rows(csr_matrix((file["X/data"][:].astype(float), file["X/indices"][:], file["X/indptr"][:]), shape=shape)), file


def _images(name: str) -> tuple[csr_matrix, h5py.File]:
    file = h5py.File(path(name))
    return unit_rows(csr_matrix(file["X"][:].astype(np.float32))), file


def _phoneme() -> Iterator[Task]:
    X, file = _images("phoneme.h5")
    names, y, split = file["class_names"].asstr()[:], file["y"][:], file["split"][:]
    for a, b in combinations(range(5), 2):
        rows = np.flatnonzero((y == a) | (y == b))
        yield Task(f"{names[a]}/{names[b]}", "phoneme", X[rows], (y[rows] == b).astype(np.int32), fixed(y[rows], split[rows] == 0, 0))


def _spambase() -> Iterator[Task]:
    X, file = _images("spambase.h5")
    y = file["y"][:]
    train = np.random.default_rng(0).random(len(y)) < 0.65
    yield Task("spam", "spambase", X, (y == 1).astype(np.int32), fixed(y, train, 0))


def _newsgroups() -> Iterator[Task]:
    X, file = _csr("newsgroups20_bow.h5")
    names, y = file["class_names"].asstr()[:].tolist(), file["y"][:]
    for pair in NEWSGROUPS.split():
        a, b = (names.index(name) for name in pair.split("/"))
        rows = np.flatnonzero((y == a) | (y == b))
        yield Task(pair, "newsgroups", X[rows], (y[rows] == b).astype(np.int32), crossed(y[rows], 0))


def _reuters() -> Iterator[Task]:
    X, file = _csr("r8_bow.h5")
    names, y = file["class_names"].asstr()[:].tolist(), file["y"][:]
    largest = np.argsort(-np.bincount(y))[:5]
    for a, b in combinations(sorted(largest.tolist()), 2):
        rows = np.flatnonzero((y == a) | (y == b))
        yield Task(f"{names[a]}/{names[b]}", "reuters", X[rows], (y[rows] == b).astype(np.int32), crossed(y[rows], 0))


def _sentiment() -> Iterator[Task]:
    X, file = _csr("sentiment4_bow.h5")
    domain, y, names = file["domain"][:], file["y"][:], file["domain_names"].asstr()[:]
    for d, name in enumerate(names):
        rows = np.flatnonzero(domain == d)
        yield Task(f"sentiment {name}", "sentiment", X[rows], (y[rows] == 1).astype(np.int32), crossed(y[rows], 0))


def _usps() -> Iterator[Task]:
    X, file = _images("usps_all.h5")
    y = file["y"][:]
    yield from _pairs("usps", X, y, np.random.default_rng(0).random(len(y)) < 7291 / 9298)


def _mnist() -> Iterator[Task]:
    X, file = _images("mnist.h5")
    y, train = file["y"][:], file["split"][:] == 0
    yield from _pairs("mnist", X, y, train)
    for a in range(10):
        yield Task(f"mnist {a}/rest", "mnist-rest", X, (y == a).astype(np.int32), fixed(y, train, a))


def _pairs(name: str, X: csr_matrix, y: np.ndarray, train: np.ndarray) -> Iterator[Task]:
    for a, b in combinations(range(10), 2):
        rows = np.flatnonzero((y == a) | (y == b))
        yield Task(f"{name} {a}/{b}", name, X[rows], (y[rows] == b).astype(np.int32), fixed(y[rows], train[rows], a))


def _many() -> Iterator[Task]:
    """Reuters 8-way, sentiment by domain 4-way, 20 newsgroups 20-way."""
    for name, column in (("r8_bow", "y"), ("sentiment4_bow", "domain"), ("newsgroups20_bow", "y")):
        X, file = _csr(f"{name}.h5")
        y = file[column][:].astype(np.int32)
        yield Task(name.removesuffix("_bow"), "many", X, y, crossed(y, 0), int(y.max()) + 1)


SETS = {
    "phoneme": _phoneme,
    "spambase": _spambase,
    "newsgroups": _newsgroups,
    "reuters": _reuters,
    "sentiment": _sentiment,
    "usps": _usps,
    "mnist": _mnist,
    "many": _many,
}


def tasks(sets: Iterable[str]) -> Iterator[Task]:
    """The tasks of these sets; a set is read when it is its turn."""
    for name in sets:
        yield from SETS[name]()
