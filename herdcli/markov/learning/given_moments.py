"""Marginals and expectations as JSON text, instead of rows, and features of clusters, which are averaged over rows.

    {"cardinality": [2, 2, 3], "names": ["a", "b", "c"],
     "clusters": [{"scope": ["a", "b"], "marginal": [0.4, 0.1, 0.1, 0.4]},
                  {"scope": [1, 2], "features": [[0, 0, 0, 0, 0, 1]], "expectations": [0.3]}]}

Tables and features list the states of a scope with the last variable varying fastest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.model.constraints import Cluster, LearningProblem, StateRows
from herdcli.markov.model.variable_names import VariableNaming
from herdcli.records import JsonValue
from herdcli.schema import Array

HINT = "write a list of objects with 'scope' and 'marginal', or 'scope', 'features' and 'expectations'"


def read_moments(text: str) -> LearningProblem:
    """Read a learning problem.  Raises DataError that names the wrong cluster."""
    made = _parse_json(text)
    if not isinstance(made, dict) or "cardinality" not in made or "clusters" not in made:
        raise DataError(
            "must be a JSON object with 'cardinality' and 'clusters'", hint='write it as {"cardinality": [2, 2], "clusters": […]}'
        )
    cardinality = np.asarray(_parse_numbers(made["cardinality"], "'cardinality'"))
    if cardinality.ndim != 1 or not len(cardinality) or (cardinality != np.floor(cardinality)).any() or cardinality.min() < 1:
        raise DataError("'cardinality' must be a list with the number of states of each variable, such as [2, 2, 3]")
    cardinality = cardinality.astype(np.int64)
    given = made.get("names")
    names = None if given is None else [str(name) for name in given] if isinstance(given, list) else []
    if names is not None and (len(names) != len(cardinality) or names != given):
        raise DataError(f"'names' must be a list of {len(cardinality)} different names, one for each variable")
    clusters = [_parse_cluster(a, item, cardinality, names, None) for a, item in enumerate(_require_list(made["clusters"]))]
    return LearningProblem(cardinality, clusters, names=names)


def read_features(text: str, cardinality: Array, names: Sequence[str] | None, rows: StateRows) -> list[Cluster]:
    """Read clusters with features; their expectations are averages over rows."""
    return [_parse_cluster(a, item, cardinality, names, rows) for a, item in enumerate(_require_list(_parse_json(text)))]


def _parse_json(text: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except ValueError as error:
        raise DataError(f"is not JSON text ({error})") from None
    return found


def _require_list(items: JsonValue) -> list[dict[str, JsonValue]]:
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) and "scope" in item for item in items):
        raise DataError("'clusters' must be a list of objects, each with a 'scope'", hint=HINT)
    return [item for item in items if isinstance(item, dict)]


def _parse_cluster(a: int, item: dict[str, JsonValue], cardinality: Array, names: Sequence[str] | None, rows: StateRows | None) -> Cluster:
    words = item["scope"]
    if not isinstance(words, list):
        raise DataError(f"the 'scope' of cluster {a} must be a list of different variables")
    scope = tuple(_parse_variable(a, word, len(cardinality), names) for word in words)
    if not scope or len(set(scope)) != len(scope):
        raise DataError(f"the 'scope' of cluster {a} must be a list of different variables")
    shape = [int(cardinality[i]) for i in scope]
    cells = int(np.prod(shape, dtype=object))
    if rows is None and "marginal" in item:
        table = _parse_numbers(item["marginal"], f"the marginal of cluster {a}").ravel()
        if len(table) != cells:
            raise DataError(f"the marginal of cluster {a} has {len(table)} values, but its variables have {cells} joint states")
        if not np.isfinite(table).all() or (table < 0).any() or abs(table.sum() - 1) > 1e-6:
            raise DataError(
                f"the marginal of cluster {a} is not a distribution: values must be at least 0 and sum to 1 (they sum to {table.sum():.6g})"
            )
        return Cluster(scope, (table / table.sum()).reshape(shape))
    if "features" not in item:
        raise DataError(f"cluster {a} has no 'features'" + ("" if rows is not None else " and no 'marginal'"), hint=HINT)
    features = np.atleast_2d(_parse_numbers(item["features"], f"the features of cluster {a}"))
    if features.ndim != 2 or features.shape[1] != cells or not np.isfinite(features).all():
        raise DataError(
            f"each of the 'features' of cluster {a} must be a list of {cells} numbers, one for each joint state of its variables"
        )
    if rows is not None:
        expectations = features @ rows.empirical_marginal(scope, shape).ravel()
    else:
        expectations = np.atleast_1d(_parse_numbers(item.get("expectations", []), f"the expectations of cluster {a}"))
        if len(expectations) != len(features):
            raise DataError(
                f"cluster {a} has {len(features)} features, but {len(expectations)} expectations; it needs one for each feature"
            )
    return Cluster(scope, expectations, features.reshape(-1, *shape))


def _parse_variable(a: int, word: JsonValue, count: int, names: Sequence[str] | None) -> int:
    found = -1 if isinstance(word, bool) else VariableNaming(names).find_index(str(word))
    if not 0 <= found < count:
        raise DataError(f"cluster {a}: there is no variable {word!r}: the network has {count}, numbered 0 to {count - 1}")
    return found


def _parse_numbers(values: JsonValue, description: str) -> Array:
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{description} must be numbers") from None
    return found
