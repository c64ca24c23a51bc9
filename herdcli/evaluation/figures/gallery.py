"""The metrics of `herd eval` for an `rbm-pairs`: its training and, with a gallery, its errors in recognising persons.

A rank-n error rate is the share of probes whose n most similar gallery images all show other persons.  Four baseline methods are
fitted to the gallery images and evaluated on the same probes.
Source: Teh (2003), sec. 3.5.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.table import Row
from herdcli.faces import face_similarities
from herdcli.faces.rank_errors import count_wrong_before_match, rank_errors
from herdcli.rbm.pair_similarity import compute_hidden_input_totals, pair_similarity
from herdcli.rbm.pairs import PairRBM
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class SubspaceDimensions:
    """Dimensions of the baselines' subspaces, smaller if the gallery requires it.  Source: Teh (2003), sec. 3.5.2."""

    dropped: int = 0  # leading eigenfaces that are left out
    eigenfaces: int = 199
    fisherfaces: int = 200
    within: int = 10
    between: int = 30


@dataclass(frozen=True)
class RecognitionTask:
    """A model with images for its evaluation: in unit values (n, D) for the model, as intensities (n, D) for the baselines.

    persons  (n,) text.  train, gallery (G,), probes (P,)  indices of rows; the baselines are fitted to `train`.  sets  (P,) text: the
    test set of each probe.
    """

    model: PairRBM
    units: Array
    images: Array
    persons: Array
    train: Array
    gallery: Array
    probes: Array
    sets: Array
    dimensions: SubspaceDimensions = SubspaceDimensions()


def metrics(
    value: PairRBM | RecognitionTask, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> Row | list[Row]:
    """Return the figures stored in the artifact; with images, the rank-n error rates of `recognition_rows`.

    pairs           number of ordered training pairs.      largest_weight  the largest weight of both blocks.
    reconstruction  mean squared error of the last epoch; reconstruction_mean that of the mean image for every pair.
    """
    if isinstance(value, RecognitionTask):
        return recognition_rows(value, map)
    largest = max(float(np.abs(W).max()) for W in (value.W1, value.W2))
    return {
        "pairs": value.pairs,
        "reconstruction": float(value.trace[-1]) if len(value.trace) else None,
        "reconstruction_mean": value.spread,
        "largest_weight": largest,
    }


def model_similarity(value: RecognitionTask, map: Map = map) -> Array:
    """Return F (P, G) of probes and gallery images under the model of pairs."""
    probes, gallery = (compute_hidden_input_totals(value.model, value.units[rows]) for rows in (value.probes, value.gallery))
    return pair_similarity(value.model, probes, gallery, map)


def method_similarities(value: RecognitionTask, map: Map = map) -> dict[str, Array]:
    """Return similarities (P, G) by method, the model's own first."""
    train, persons, dimensions = value.images[value.train], value.persons[value.train], value.dimensions
    methods: dict[str, face_similarities.Similarity] = {
        "correlation": face_similarities.cosine_similarity,
        "eigenfaces": face_similarities.fit_eigenfaces(train, components=dimensions.eigenfaces, drop=dimensions.dropped),
        "fisherfaces": face_similarities.fit_fisherfaces(train, persons, components=dimensions.fisherfaces),
        "dppca": face_similarities.fit_delta_ppca(train, persons, within=dimensions.within, between=dimensions.between),
    }
    own = {"rbm-pairs": model_similarity(value, map)}
    probes, gallery = value.images[value.probes], value.images[value.gallery]
    return own | {name: method(probes, gallery) for name, method in methods.items()}


def recognition_rows(value: RecognitionTask, map: Map = map) -> list[Row]:
    """Return one row for each test set and method, and for all probes together if there are several sets."""
    persons, gallery = value.persons[value.probes], value.persons[value.gallery]
    ahead = {name: count_wrong_before_match(found, persons, gallery) for name, found in method_similarities(value, map).items()}
    names = np.unique(value.sets).tolist()
    chosen = {name: value.sets == name for name in names}
    if len(names) > 1:
        chosen["all"] = np.ones(len(value.probes), dtype=bool)
    return [
        {"set": name, "method": method, "probes": int(inside.sum()), "gallery": len(gallery)}
        | {f"rank_{rank}": error for rank, error in rank_errors(found[inside]).items()}
        | {"verdict": correlation_verdict(ahead, inside) if method == "rbm-pairs" else None}
        for name, inside in chosen.items()
        for method, found in ahead.items()
    ]


def correlation_verdict(wrong_before_match: dict[str, Array], test_set_mask: Array) -> str:
    """Return `ok` or `worse than correlation`: significantly more wrong first matches than plain correlation, by two standard errors."""
    own, plain = (rank_errors(wrong_before_match[name][test_set_mask])[1] for name in ("rbm-pairs", "correlation"))
    spread = float(np.sqrt(max(plain * (1.0 - plain), 0.25 / len(test_set_mask)) / max(1, int(test_set_mask.sum()))))
    return "worse than correlation" if own > plain + 2.0 * spread else "ok"
