"""Sets of labels: `herd nherd-train --task multilabel` without options beside scikit-learn's one-vs-rest, on the same lines.

    python scripts bench/nherd/labels [--data FOLDER] [--only NAME …]

Three sets: reviews with their domain and their polarity as labels; posts to 20 newsgroups with the parts of a group's name (33 labels, the
posts of later dates are tested); posts as 100 words, of which the twenty commonest are labels and the others features (some have no label).
Of each: Hamming loss, micro and macro F1, share of rows with exactly their labels, precision of the highest score, seconds of the whole
process (herd) or of the fit (scikit-learn, which reads before).  scikit-learn: SGDClassifier as it is (hinge) in one and in five passes,
LogisticRegression, and LinearSVC of tf-idf, each with its own defaults.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from bench.nherd.defaults import HERD, read
from scipy.sparse import csr_matrix
from shared.real_data import FOLDER

Rows = tuple[csr_matrix, np.ndarray]  # X and labels (n, C), 1 or 0


def parted(X: csr_matrix, Y: np.ndarray, test: np.ndarray | None = None) -> tuple[Rows, Rows]:
    """Training and test rows in one random order; a fifth is held out where nothing says which."""
    order = np.random.default_rng(0).permutation(len(Y))
    held = np.isin(np.arange(len(Y)), order[: len(Y) // 5]) if test is None else test
    train, tested = order[~held[order]], order[held[order]]
    return (X[train], Y[train]), (X[tested], Y[tested])


def sets(folder: Path) -> Iterator[tuple[str, Rows, Rows]]:
    """Name, training rows and test rows."""
    if (folder / "sentiment4_bow.h5").exists():
        X, y, _, _ = read(folder / "sentiment4_bow.h5")
        with h5py.File(folder / "sentiment4_bow.h5") as file:
            domain = file["domain"][:]
        yield "sentiment, domain and polarity", *parted(X, np.column_stack([np.eye(4, dtype=int)[domain], y, 1 - y]))
    if (folder / "newsgroups20_bow.h5").exists():
        X, y, split, names = read(folder / "newsgroups20_bow.h5")
        words = sorted({part for name in names for part in name.split(".")})
        of_group = np.array([[word in name.split(".") for word in words] for name in names], dtype=int)
        assert split is not None
        yield "20 newsgroups, parts of names", *parted(X, of_group[y], split == split.max())
    if (folder / "news_w100.h5").exists():
        X, *_ = read(folder / "news_w100.h5")
        order = np.argsort(-np.asarray(X.sum(axis=0)).ravel(), kind="stable")
        yield "100 words, the commonest twenty", *parted(csr_matrix(X[:, order[20:]]), X[:, order[:20]].toarray().astype(int))


def write(path: Path, rows: Rows) -> None:
    """svmlight text with sets of labels."""
    X, Y = rows
    X.sort_indices()
    pairs = [f"{place + 1}:{value:.6g}" for place, value in zip(X.indices.tolist(), X.data.tolist(), strict=True)]
    with path.open("w") as out:
        for k, labels in enumerate(Y):
            out.write(f"{','.join(map(str, np.flatnonzero(labels)))} {' '.join(pairs[X.indptr[k] : X.indptr[k + 1]])}\n")


def of_herd(folder: Path, passes: int) -> str:
    model, start = str(folder / "m.h5"), time.perf_counter()
    subprocess.run(
        [HERD, "nherd-train", "--task", "multilabel", "-q", "train.svm", "--passes", str(passes), "-o", model], check=True, cwd=folder
    )
    seconds = time.perf_counter() - start
    told = subprocess.run([HERD, "eval", model, "--data", str(folder / "test.svm"), "--format", "json"], check=True, capture_output=True)
    (row,) = json.loads(told.stdout)
    names = ("hamming", "micro_f1", "macro_f1", "subset_accuracy", "precision_at_1")
    return " | ".join(f"{row[name]:.4f}" for name in names) + f" | {seconds:.1f}"


def of_sklearn(model: object, train: Rows, test: Rows, *, tfidf: bool) -> str:
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.metrics import accuracy_score, f1_score, hamming_loss
    from sklearn.multiclass import OneVsRestClassifier

    X, Xt = (csr_matrix((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), A.shape) for A in (train[0], test[0]))
    if tfidf:
        weights = TfidfTransformer().fit(X)
        X, Xt = weights.transform(X), weights.transform(Xt)
    start = time.perf_counter()
    fitted = OneVsRestClassifier(model).fit(X, train[1])
    seconds, y = time.perf_counter() - start, test[1]
    told, best = fitted.predict(Xt), fitted.decision_function(Xt).argmax(axis=1)
    found = [
        hamming_loss(y, told),
        *(f1_score(y, told, average=way, zero_division=0) for way in ("micro", "macro")),
        accuracy_score(y, told),
    ]
    return " | ".join(f"{value:.4f}" for value in (*found, y[np.arange(len(y)), best].mean())) + f" | {seconds:.1f}"


def compared(name: str, train: Rows, test: Rows) -> None:
    print(f"\n{name}: {len(train[1])} rows, {train[1].shape[1]} labels, {train[1].sum(axis=1).mean():.2f} a row\n")
    print("| | Hamming loss | micro F1 | macro F1 | exact | precision@1 | s |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder / "train.svm", train)
        write(folder / "test.svm", test)
        for passes, told in ((1, "one pass"), (5, "five passes")):
            print(f"| herd, {told} | {of_herd(folder, passes)} |", flush=True)
    try:
        from sklearn.linear_model import LogisticRegression, SGDClassifier
        from sklearn.svm import LinearSVC
    except ImportError:
        return
    for told, model, tfidf in (
        ("SGD, one pass", SGDClassifier(max_iter=1, tol=None, random_state=0), False),
        ("SGD, five passes", SGDClassifier(max_iter=5, tol=None, random_state=0), False),
        ("logistic regression", LogisticRegression(max_iter=200), False),
        ("linear SVM, tf-idf", LinearSVC(), True),
    ):
        print(f"| {told} | {of_sklearn(model, train, test, tfidf=tfidf)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--only", action="append", help="may be repeated: the beginning of a name")
    options = parser.parse_args()
    for name, train, test in sets(options.data):
        if not options.only or name.startswith(tuple(options.only)):
            compared(name, train, test)


if __name__ == "__main__":
    main()
