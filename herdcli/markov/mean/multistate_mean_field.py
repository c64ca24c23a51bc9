"""Naive mean field for any network, with any numbers of states and with zeros.

One variable after the other gets its best marginal with all others fixed,

    q_i(x) ∝ exp Σ_a E_{q \\ i}[log f_a | x_i = x],

which never increases the free energy Σ_i Σ q_i log q_i − Σ_a E_q[log f_a], an upper bound of −log Z.  Zeros are replaced by e^−1000
during the iteration, and the remaining mass of forbidden states is removed at the end.  Source: Teh (2003), 2.26–2.29;
Wainwright & Jordan (2008), sec. 5.3.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage
from herdcli.markov.bethe import starts
from herdcli.markov.method import InferenceResult, InferenceSettings, ToTolerance
from herdcli.markov.model.beliefs import make_convergence_attributes
from herdcli.markov.model.network import Factor, Network
from herdcli.markov.model.restricted_states import restrict_to_possible_states
from herdcli.markov.model.stacked_tables import state_offsets as places
from herdcli.records import dataclass
from herdcli.schema import Array

FLOOR = -1e3  # replaces log 0 during the iteration
NEGLIGIBLE = 1e-12  # marginals below this are set to 0 at the end


@dataclass
class MultistateMeanFieldState:
    """Marginals of all variables, concatenated, and one residual and free energy per sweep."""

    q: Array
    residual: Array
    free_energy: Array
    step: int


class MultistateMeanField(ToTolerance[MultistateMeanFieldState, InferenceSettings]):
    """The algorithm `mean-field` for networks that are not Boltzmann machines; each step is a sweep over all variables."""

    state = MultistateMeanFieldState

    def __init__(self, network: Network, settings: InferenceSettings) -> None:
        if network.stored_marginals():
            raise BadUsage(
                "--algorithm mean-field can use observed marginals only if variables have two states and factors are positive and "
                "join pairs",
                hint="use --algorithm ups",
            )
        self.network, self.settings, self.steps = network, settings, settings.iterations
        self.inner = restrict_to_possible_states(network)
        small = self.inner.network
        self.first = places(small)
        with np.errstate(divide="ignore"):
            self.factors: list[Factor] = [(scope, np.log(table)) for scope, table in small.factors()]
        self.soft = [np.maximum(logs, FLOOR) for _, logs in self.factors]
        self.owners: list[list[int]] = [[] for _ in range(small.count)]
        for a, (scope, _) in enumerate(self.factors):
            for i in scope:
                self.owners[i].append(a)

    def init(self) -> MultistateMeanFieldState:
        """Return uniform marginals, or random ones."""
        return MultistateMeanFieldState(
            starts.make_initial_marginals(self.settings, self.inner.network.cardinality), np.empty(0), np.empty(0), 0
        )

    def _expected_log_table(self, a: int, logs: Array, q: Array, excluded_variable: int | None = None) -> Array:
        """Compute E_q of a log table over all variables of factor a except one."""
        left = logs
        for axis, i in reversed(list(enumerate(self.factors[a][0]))):
            if i != excluded_variable:
                own = q[self.first[i] : self.first[i + 1]]
                some = own > 0  # 0 · log 0 is 0
                left = np.tensordot(np.compress(some, left, axis=axis), own[some], axes=(axis, 0))
        return np.asarray(left)

    def step(self, state: MultistateMeanFieldState) -> MultistateMeanFieldState:
        """Do one sweep."""
        largest = 0.0
        for i, owners in enumerate(self.owners):
            here = slice(int(self.first[i]), int(self.first[i + 1]))
            # Coordinate descent: log q_i = Σ_a E_{q \ i}[log f_a] + const minimises F over q_i; entropies of the other q_j are constants.
            logs = sum((self._expected_log_table(a, self.soft[a], state.q, i) for a in owners), start=np.zeros(here.stop - here.start))
            new = np.exp(logs - logs.max())
            new /= new.sum()
            new = (1 - self.settings.damping) * new + self.settings.damping * state.q[here]
            largest = max(largest, float(np.abs(new - state.q[here]).max()))
            state.q[here] = new
        energy = self.free_energy(state.q, self.soft)
        return MultistateMeanFieldState(state.q, np.append(state.residual, largest), np.append(state.free_energy, energy), state.step + 1)

    def free_energy(self, q: Array, logs: list[Array]) -> float:
        """Compute Σ q log q − Σ_a E_q[log f_a]."""
        some = q > 0
        entropy = -float((q[some] * np.log(q[some])).sum())
        return -entropy - sum(float(self._expected_log_table(a, part, q)) for a, part in enumerate(logs)) - self.inner.constant

    def bytes_needed(self, state: MultistateMeanFieldState) -> tuple[int, str]:
        """Return the bytes of the log tables, and their purpose in words."""
        return 24 * len(self.inner.network.table), "the log tables"

    def result(self, state: MultistateMeanFieldState) -> InferenceResult:
        """Return marginals without negligible states, and the lower of the two free energies."""
        q = np.where(state.q > NEGLIGIBLE, state.q, 0.0)
        q /= np.repeat(np.add.reduceat(q, self.first[:-1]), np.diff(self.first))
        # Both are upper bounds of −log Z, for the network and for the softened one, whose Z is not less.
        hard = self.free_energy(q, [logs for _, logs in self.factors])
        energy = min(hard, self.free_energy(state.q, self.soft))
        nodes = self.inner.expand_marginals(np.split(q, self.first[1:-1]), self.network.cardinality)
        told = make_convergence_attributes(energy, self.meets_criterion(state), state.step, state.residual, state.free_energy)
        warning = (
            ""
            if np.isfinite(hard)
            else "mean-field failed: every product of marginals that it found has probability 0; use --algorithm bp or ups"
        )
        return InferenceResult(nodes, [], told, warning)
