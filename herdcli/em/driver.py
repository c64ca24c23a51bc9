"""Expectation–maximisation as coordinate descent on a free energy, for every model of this topic.

With joint p(x, y; θ) over latent x and rows y, and any distribution q over x,

    F(θ, q) = −E_q[log p(x, y; θ)] − H(q) = −log p(y; θ) + KL(q ‖ p(x | y; θ)).

The E step makes q the posterior, so that KL = 0 and F = −log p(y; θ); the M step minimises F over θ at fixed q.  F never rises.
q is never stored: at the E step H(q) = log p(y; θ) − E_q[log p(x, y; θ)], whose last term needs the sufficient statistics alone.
Source: Neal & Hinton (1998); Makin, sec. 6.2 to 6.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np

from herdcli.algorithm import HasStateShapes, Map, RunProgress
from herdcli.em import quasi_newton
from herdcli.em.quasi_newton import HasCoordinates, Parameters, QuasiNewtonState
from herdcli.errors import BadUsage, Diverged
from herdcli.numerics.block_statistics import Block, BlockSource, Sums, SumTree, add_next_blocks, blocks_per_step
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, array

__all__ = ["EM", "EMFit", "ObjectiveHistory", "EMModel", "Parameters", "EMSettings", "EMState", "run_em"]


class EMModel(Protocol):
    """A model that the EM driver can fit.

    Statistics must contain `mass` (1,), the sum of the weights, and `log_likelihood` (1,), the total log-likelihood.
    """

    def start(self, restart: int) -> Parameters:
        """Return the initial parameters of a restart."""
        ...

    def expect(self, parameters: Parameters) -> Callable[[Block], Sums]:
        """Return the E step: a function from a block to its expected sufficient statistics."""
        ...

    def complete_statistics(self, parameters: Parameters, sums: Sums) -> Sums:
        """Return the statistics of a whole pass, with anything else that the M step needs from the parameters of the E step."""
        ...

    def expected_log_likelihood(self, parameters: Parameters, sums: Sums) -> float:
        """Return Σ E_q[log p(x, y; θ)] from the statistics of q."""
        ...

    def maximise(self, parameters: Parameters, sums: Sums) -> tuple[Parameters, int]:
        """Return the parameters after the M step, and how many variances it raised to their floor.

        parameters  the parameters with which the E step was done.
        """
        ...

    def penalty(self, parameters: Parameters) -> float:
        """Return the term added to the log-likelihood: the log prior, −KL of a posterior over parameters, or 0."""
        ...

    def memory(self) -> int:
        """Return the bytes that the statistics and the work of one block take."""
        ...


@dataclass(frozen=True)
class ObjectiveHistory:
    """The objective at each half-step of the best restart, in nats per row: even entries follow an E step, odd ones the M step after it.

    `log_likelihood` belongs to the parameters of the entry, so the value after an M step is repeated in the next entry.
    At every entry `free_energy` − kl + log_likelihood + penalty = 0.  A quasi-Newton step maximises the likelihood itself:
    the entry after it has the values of the next E step, with kl 0.
    """

    log_likelihood: Array = array("T", "of the rows, by this entry's parameters", kind="f")
    free_energy: Array = array("T", "penalty included, by this entry's parameters and the posterior of the last E step", kind="f")
    kl: Array = array("T", "from the posterior of the last E step to that of this entry's parameters", kind="f")
    floors: Array = array("T", "variances that the M step raised to their floor", kind="i")

    @property
    def largest_rise(self) -> float:
        """The largest rise of the free energy in one half-step, in nats per row; 0 if it never rose."""
        return float(max(0.0, np.diff(self.free_energy).max(initial=0.0)))


@dataclass(frozen=True)
class EMFit:
    """The result of a run: parameters and ledger of the best restart, and the outcomes of all restarts."""

    parameters: Parameters
    ledger: ObjectiveHistory
    objectives: Array  # (R,) −free energy of each restart, in nats per row
    iterations: Array  # (R,) number of M steps of each restart
    converged: Array  # (R,) whether each restart reached its tolerance
    best: int
    mass: float

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood of the final parameters, in mean nats per row."""
        return float(self.ledger.log_likelihood[-1])


@dataclass(frozen=True)
class EMSettings:
    """The stopping criteria of a run and its number of restarts."""

    iterations: int = 200
    tolerance: float = 1e-6  # least gain of an iteration, in nats per row, that counts as progress
    patience: int = 3  # consecutive iterations with less gain after which a restart ends
    restarts: int = 1
    accelerate: bool = False  # use quasi-Newton steps, for models that have coordinates for them

    def __post_init__(self) -> None:
        if min(self.iterations, self.tolerance) < 0 or min(self.patience, self.restarts) < 1:
            raise BadUsage("iterations and tolerance must not be negative; patience and restarts must be at least 1")


@dataclass
class RestartState:
    """The current or final state of one restart."""

    parameters: dict[str, Array]
    values: Array = array("T 4", "the ledger so far: log-likelihood, free energy, KL, floors", kind="f")
    quiet: int = 0  # consecutive iterations that gained less than the tolerance
    converged: bool = False
    refused: int = 0  # number of rejected quasi-Newton steps, after which the likelihood would have fallen
    leap: QuasiNewtonState | None = None  # state of the quasi-Newton steps in progress

    @property
    def iterations(self) -> int:
        """The number of M steps so far, including quasi-Newton steps in their place."""
        return len(self.values) // 2

    @property
    def passes(self) -> int:
        """The number of steps accepted or rejected; each takes one pass over the rows."""
        return self.iterations + self.refused

    @property
    def objective(self) -> float:
        """The −free energy of the last entry."""
        return -float(self.values[-1, 1]) if len(self.values) else -np.inf


@dataclass
class EMState:
    """The complete state of a run, which may be in the middle of a pass."""

    step: int
    now: RestartState
    best: RestartState
    best_restart: int = 0
    sizes: list[int] = field(default_factory=list)  # sizes of the partial sums in the tree of this pass
    sums: list[dict[str, Array]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)  # objectives of the restarts that have ended
    took: list[int] = field(default_factory=list)  # numbers of iterations of these restarts
    settled: list[bool] = field(default_factory=list)  # whether each of these restarts ended by its tolerance
    mass: float = 0.0


@dataclass(frozen=True)
class EM(HasStateShapes[EMState]):
    """Expectation–maximisation as an algorithm: a model, the blocks of a pass, and the stopping criteria."""

    model: EMModel
    source: BlockSource
    settings: EMSettings = EMSettings()
    map: Map = map
    state = EMState  # the type of its states
    e_step: list[Any] = field(default_factory=list, compare=False)  # the last parameters and their statistics

    def _expectation(self, parameters: Parameters) -> Callable[[Block], Sums]:
        """Return the statistics of an E step: for all its blocks the same object, so that they are prepared and sent once."""
        if not self.e_step or self.e_step[0] is not parameters:
            self.e_step[:] = [parameters, self.model.expect(parameters)]
        found: Callable[[Block], Sums] = self.e_step[1]
        return found

    def _begin_restart(self, restart: int) -> RestartState:
        return RestartState(self.model.start(restart), np.empty((0, 4)))

    def state_template(self) -> EMState:
        """Return a state without initial parameters, as a template for checkpoints; shapes of parameters are not checked."""
        course = RestartState({}, np.empty((0, 4)))
        return EMState(0, course, replace(course))

    def init(self) -> EMState:
        """Return the first restart before its first E step."""
        course = self._begin_restart(0)
        return EMState(0, course, replace(course))

    def resume_best_restart(self, state: EMState) -> EMState:
        """Return a state that continues the best restart of an ended run of the same model, which had a larger tolerance."""
        at, course = state.best_restart, state.best
        # The entry of the last E step is dropped because the next pass, over the same parameters, adds it again.
        now = replace(course, values=course.values[:-1], quiet=0, converged=False, leap=None)
        found = replace(state, now=now, best=RestartState({}, np.empty((0, 4))), best_restart=0)
        found.ended = [*state.ended[:at], *state.ended[at + 1 :]]
        found.took = [*state.took[:at], *state.took[at + 1 :]]
        found.settled = [*state.settled[:at], *state.settled[at + 1 :]]
        return found

    def step(self, state: EMState) -> EMState:
        """Process some blocks of an E step, and after the last block take the M step."""
        tree, model = SumTree(state.sizes, state.sums), self.model
        try:
            add_next_blocks(tree, self.source, self._expectation(state.now.parameters), self.map)
        except (Diverged, np.linalg.LinAlgError):
            if state.now.leap is None:
                raise
            ended, found = True, None  # the quasi-Newton step was too long
        else:
            ended = tree.blocks == self.source.count
            found = model.complete_statistics(state.now.parameters, tree.total_sums()) if ended else None
        state.step += 1
        if ended:
            state.sizes, state.sums = [], []
            self._process_e_step_result(state, found)
        return state

    def _process_e_step_result(self, state: EMState, sums: Sums | None) -> None:
        """Record the result of an E step, then end the restart or continue.  sums  None where the likelihood is not defined."""
        course = state.now
        reached = -np.inf if sums is None else float(sums["log_likelihood"][0])
        value = reached + self.model.penalty(course.parameters)
        if course.leap is not None and not value >= course.leap.objective:
            self._reject_quasi_newton_step(state, course, course.leap, value)
            return
        if sums is None or not np.isfinite(value):
            message = f"the log-likelihood is {reached} after {course.iterations} iterations"
            raise Diverged(message, hint="use a larger --floor, or fewer --components")
        state.mass = float(sums["mass"][0])
        self._record_e_step(course, sums, value, state.mass)
        if course.converged or course.passes >= self.settings.iterations:
            self._finish_restart(state)
        else:
            self._take_m_step(course, sums, value, state.mass)

    def _record_e_step(self, restart: RestartState, sums: Sums, value: float, mass: float) -> None:
        """Add the result of an E step to the ledger; a quasi-Newton step before it gets an entry of its own first."""
        reached, energy = float(sums["log_likelihood"][0]) / mass, -value / mass
        if restart.leap is not None:
            assert isinstance(self.model, HasCoordinates)
            quasi_newton.accept_trial(self.model, restart.leap, sums)
            floors = self.model.maximise(restart.parameters, sums)[1]
            restart.values = np.vstack([restart.values, [reached, energy, 0.0, float(floors)]])
        gained = np.inf
        if len(restart.values):
            gained = restart.values[-2, 1] - energy
            restart.values[-1, 0], restart.values[-1, 2] = reached, restart.values[-1, 1] - energy
        restart.quiet = restart.quiet + 1 if gained <= self.settings.tolerance else 0
        restart.values = np.vstack([restart.values, [reached, energy, 0.0, 0.0]])
        restart.converged = restart.quiet >= self.settings.patience

    def _take_m_step(self, restart: RestartState, sums: Sums, value: float, mass: float) -> None:
        """Take the M step, or set up a quasi-Newton step to try before it."""
        # F after the M step = −log p − penalty − (Q(θ') − Q(θ)), with H(q) taken from the E step
        before = self.model.expected_log_likelihood(restart.parameters, sums)
        after, floors = self.model.maximise(restart.parameters, sums)
        gain = self.model.expected_log_likelihood(after, sums) - before
        energy = -(float(sums["log_likelihood"][0]) + gain + self.model.penalty(after)) / mass
        if not self.settings.accelerate or not isinstance(self.model, HasCoordinates) or restart.iterations < quasi_newton.LEAD:
            self._record_m_step(restart, after, energy, floors)
            return
        leap = restart.leap or quasi_newton.begin_quasi_newton(self.model, restart.parameters, sums)
        leap.objective, leap.kept, leap.after, leap.energy, leap.floors = value, restart.parameters, after, energy, floors
        restart.leap, restart.parameters = leap, quasi_newton.begin_line_search(self.model, leap, mass)

    def _record_m_step(self, restart: RestartState, parameters: Parameters, energy: float, floors: int) -> None:
        restart.parameters, restart.leap = parameters, None
        restart.values = np.vstack([restart.values, [np.nan, energy, np.nan, float(floors)]])

    def _reject_quasi_newton_step(self, state: EMState, restart: RestartState, leap: QuasiNewtonState, value: float) -> None:
        """Try a shorter quasi-Newton step, else take the M step; if no passes are left, restore the parameters before the step."""
        assert isinstance(self.model, HasCoordinates)
        restart.refused += 1
        shorter = quasi_newton.shorten_trial(self.model, leap, value)
        if restart.passes >= self.settings.iterations:
            restart.parameters = leap.kept
            self._finish_restart(state)
        elif shorter is not None:
            restart.parameters = shorter
        else:
            self._record_m_step(restart, leap.after, leap.energy, leap.floors)

    def _finish_restart(self, state: EMState) -> None:
        """Keep this restart if it is the best so far, and begin the next one."""
        course = state.now
        course.leap = None
        if course.objective > state.best.objective:
            state.best, state.best_restart = course, len(state.ended)
        state.ended.append(course.objective)
        state.took.append(course.iterations)
        state.settled.append(course.converged)
        if not self.done(state):
            state.now = self._begin_restart(len(state.ended))

    def done(self, state: EMState) -> bool:
        """Return whether every restart has ended."""
        return len(state.ended) >= self.settings.restarts

    def memory(self) -> int:
        """Return the bytes needed besides the rows: statistics in the tree and the blocks being processed."""
        at_once = blocks_per_step(self.source) if self.map is not map else 1
        starting: int = getattr(self.model, "initialisation_memory", int)()  # the memory of an expensive start
        return max(starting, self.model.memory() * (min(at_once, self.source.count) + self.source.count.bit_length()))

    def progress(self, state: EMState) -> RunProgress:
        """Return the number of steps and the log-likelihood of the last E step."""
        passes = -(-self.source.count // blocks_per_step(self.source))
        entries = state.now.values[::2]
        figure = f"restart {len(state.ended) + 1}, log-likelihood {entries[-1, 0]:.6g}" if len(entries) else ""
        return RunProgress(state.step, self.settings.restarts * (self.settings.iterations + 1) * passes, figure)

    def result(self, state: EMState) -> EMFit:
        """Return the fit of the best restart."""
        values = state.best.values
        ledger = ObjectiveHistory(values[:, 0].copy(), values[:, 1].copy(), values[:, 2].copy(), values[:, 3].astype(np.int64))
        return EMFit(
            state.best.parameters,
            ledger,
            np.array(state.ended),
            np.array(state.took, dtype=np.int64),
            np.array(state.settled, dtype=bool),
            state.best_restart,
            state.mass,
        )


def run_em(algorithm: EM) -> EMFit:
    """Run EM to its end outside any command and return the fit."""
    state = algorithm.init()
    while not algorithm.done(state):
        state = algorithm.step(state)
    return algorithm.result(state)


__getattr__ = former_class_getattr(__name__, Ledger="ObjectiveHistory")  # names in pickles of version 0.1
