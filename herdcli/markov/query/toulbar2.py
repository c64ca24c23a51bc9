"""Most probable states by toulbar2, a solver of cost function networks: branch and bound under soft local consistency, if it is installed.

Costs are −log of the factors, minus the least of each, as decimals, because toulbar2 works with integers.  The states' value is recomputed
from the factors, and the bound allows for rounding to decimals.  Source: Hurley et al. (2016); https://toulbar2.github.io/toulbar2.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, NegativeResult
from herdcli.markov.model.network import Network
from herdcli.markov.model.possible_states import IMPOSSIBLE
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.query.exact_queries import MostProbableStates
from herdcli.markov.query.log_tables import state_log_value
from herdcli.records import dataclass

DIGITS = 15  # largest number of digits of the sum of all costs, so that the sum fits a 64-bit integer
MOST_DECIMALS = 9
INSTALL = "pip install 'herdcli[toulbar2]'"


@dataclass(frozen=True)
class CostTable:
    """−log of a factor minus the least of its costs; infinite where the factor is 0."""

    scope: tuple[int, ...]
    values: list[float]


def load_solver() -> Any:
    """Import the module pytoulbar2.  Raises BadUsage if it is not installed."""
    try:
        return importlib.import_module("pytoulbar2")
    except ImportError as error:
        raise BadUsage("--solver toulbar2 needs pytoulbar2, which is not installed", hint=INSTALL) from error


def solve_most_probable(network: Network, seconds: float | None = None) -> MostProbableStates:
    """Return the most probable states of all variables, and an upper bound.

    seconds  CPU time after which the best states so far are returned; whole seconds, at least one.  Raises NegativeResult if no state
    is possible, or none was found in time.
    """
    inner = restrict_to_possible_states(network)
    small = inner.network
    parts, shift = make_cost_tables(small)
    decimals = cost_decimals(parts)
    problem = load_solver().CFN(resolution=decimals, verbose=-1)
    for i, count in enumerate(small.cardinality.tolist()):
        problem.AddVariable(f"x{i}", range(count))
    for part in parts:
        problem.AddFunction(list(part.scope), part.values)
    found = problem.Solve(timeLimit=0 if seconds is None else max(1, math.ceil(seconds)))
    if found is None:
        if seconds is None:
            raise NegativeResult(IMPOSSIBLE)
        raise NegativeResult(f"toulbar2 found no possible state in {seconds:g} s", hint="raise --time, or leave it out")
    x, cost = [int(state) for state in found[0]], float(found[1])
    value = state_log_value(small, x) + inner.constant
    proven = float(problem.GetDDualBound()) >= cost - 0.5 * 10.0**-decimals
    rounding = len(parts) * 10.0**-decimals
    bound = value if proven else max(value, inner.constant - shift - float(problem.GetDDualBound()) + rounding)
    return MostProbableStates(inner.original_states(dict(enumerate(x))), value, bound, proven, "toulbar2")


def make_cost_tables(network: Network) -> tuple[list[CostTable], float]:
    """Return the costs of every factor that is not constant, and the sum of the subtracted constants."""
    made, shift = [], 0.0
    with np.errstate(divide="ignore"):
        for scope, table in network.factors():
            values = -np.log(table).ravel()
            least = float(values.min())
            shift += least
            if values.max() > least:
                made.append(CostTable(scope, (values - least).tolist()))
    return made, shift


def cost_decimals(parts: list[CostTable]) -> int:
    """Return the number of decimals with which the sum of all costs is an integer of at most DIGITS digits."""
    largest = sum(max((value for value in part.values if math.isfinite(value)), default=0.0) for part in parts)
    return max(0, min(MOST_DECIMALS, DIGITS - math.ceil(math.log10(max(largest, 1.0)))))
