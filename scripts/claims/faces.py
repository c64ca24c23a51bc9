"""What Teh (2003), sec. 3.5.2, says in words of the other methods of recognition, as numbers.

    python scripts claims/faces FOLDER [--quick] [--only CLAIM …]           (makes claims-faces.csv)

angle       correlation, the angle between two images, against their Euclidean distance: rank-1 errors, partition by partition.  Images that
            have one histogram have one length, so that both order them alike; so of images without --equalize too.
eigenface   principal components 2 to 200 against 1 to 199.

The sets and partitions are those of fig. 3.9 (scripts/papers/fig_faces.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from claims.claim_rows import told, write
from papers.fig_faces import NORMAL, SETS, SOURCES, SPLITS
from shared.figure_pipeline import Row, herd
from shared.real_data import path

from herdcli import artifacts
from herdcli.artifacts.tables.condition_holdout import PROBE_SET
from herdcli.faces import face_similarities
from herdcli.faces.rank_errors import count_wrong_before_match
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN

Scores = dict[str, Array]


@cache
def partitions(quick: bool, equalized: bool = True) -> dict[str, list[tuple[Array, Array, Array, Array]]]:
    """Test set -> for each partition images and persons of the gallery and of the probes."""
    found: dict[str, list[tuple[Array, Array, Array, Array]]] = {}
    with TemporaryDirectory() as name:
        work = Path(name)
        for source, (file, factor, column) in SOURCES.items():
            normal = NORMAL if equalized else NORMAL[:2]
            herd("convert", path(file), "--subsample", factor, *normal, "--keep-column", column, "-q", "-o", work / f"{source}.h5")
        for data, (source, options) in SPLITS.items():
            for number in range(2 if quick else 10):
                herd("convert", work / f"{source}.h5", *options, "--seed", number, "-q", "-o", work / "part.h5")
                part = artifacts.load(str(work / "part.h5")).value
                X = np.asarray(part.X, dtype=np.float64)
                gallery, probes = part.split == TRAIN, part.split == TEST
                sets = np.full(len(X), "test") if PROBE_SET not in (part.columns or {}) else part.columns[PROBE_SET].astype(str)
                for own in np.unique(sets[probes]):
                    if (data, own) in SETS:
                        chosen = probes & (sets == own)
                        found.setdefault(SETS[data, own], []).append((X[gallery], part.y[gallery], X[chosen], part.y[chosen]))
    return found


def euclidean(probes: Array, gallery: Array) -> Array:
    """Minus the squared distance."""
    return 2 * probes @ gallery.T - (probes**2).sum(axis=1)[:, None] - (gallery**2).sum(axis=1)


def errors(quick: bool, kind: str, equalized: bool = True) -> Iterator[tuple[str, Scores]]:
    """Rank-1 errors of two methods on each partition of each test set."""
    for title, parts in partitions(quick, equalized).items():
        scores: dict[str, list[float]] = {}
        for gallery, persons, probes, wanted in parts:
            if kind == "angle":
                alike = {"correlation": face_similarities.cosine_similarity(probes, gallery), "euclidean": euclidean(probes, gallery)}
            else:
                alike = {f"{drop} dropped": face_similarities.fit_eigenfaces(gallery, drop=drop)(probes, gallery) for drop in (0, 1)}
            for name, similarity in alike.items():
                scores.setdefault(name, []).append(float(np.mean(count_wrong_before_match(similarity, wanted, persons) > 0)))
        yield title, {name: np.array(values) for name, values in scores.items()}


def compared(claim: str, quick: bool, worse: str, better: str, equalized: bool = True) -> Iterator[Row]:
    kind = claim if equalized else f"{claim}, own histograms"
    for title, scores in errors(quick, claim, equalized):
        for name, values in scores.items():
            yield told(kind, title, f"rank-1 error: {name}", values)
        yield told(kind, title, "gain", scores[worse] - scores[better])


def angle(quick: bool) -> Iterator[Row]:
    """How much lower the error of the angle is."""
    yield from compared("angle", quick, "euclidean", "correlation")
    yield from compared("angle", quick, "euclidean", "correlation", equalized=False)


def eigenface(quick: bool) -> Iterator[Row]:
    """How much lower the error without the first component is."""
    yield from compared("eigenface", quick, "0 dropped", "1 dropped")


CLAIMS = {"angle": angle, "eigenface": eigenface}

if __name__ == "__main__":
    write("claims-faces", CLAIMS)
