"""The search for the number of hidden units (--hidden auto), by the likelihood of validation rows.

Sizes increase along a ladder, each about twice the last.  Every size is learned to its end before it is evaluated: a short run would
favour small models, which learn faster, and models that have not had the time to overfit.  As sizes double, all of them together cost
about twice the largest.  The best model is the result, without another fit.  The search ends once STALE sizes explain validation rows no
better than the best size before them and their training rows better: they overfit.  A size that explains both worse has only learned
badly (CD-1 leaves probability mass that its chains never reach), and is no evidence about larger sizes.

The criterion of a size errs downwards, since an estimate of log Z from chains that miss a mode makes a model look better than it is.
It is the exact log-likelihood if log Z can be summed, and the lower end of its 95 % interval if log Z is annealed.  If the annealed log Z
is not reliable, it is at most the likelihood of rows that are annealed back from the data (RAISE; Burda, Grosse & Salakhutdinov 2015).
Models that predict labels are evaluated by the exact mean of log p(y | v).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from herdcli.algorithm import HasStateShapes, Map, RunProgress
from herdcli.errors import BadUsage, Diverged
from herdcli.numerics import exact_arithmetic
from herdcli.rbm.classification_rbm import label_log_posterior
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.learning.validation import select_evenly_spaced
from herdcli.rbm.likelihood import length_annealing, word_counts
from herdcli.rbm.likelihood.annealed_importance import BACK_TEMPERATURES, conservative_likelihood_correction
from herdcli.rbm.likelihood.enumeration import exact_log_partition, has_gaussian_layers, log2_state_count
from herdcli.rbm.likelihood.log_z_estimates import STUDENT, LogZEstimate
from herdcli.rbm.likelihood.repeated_annealing import MOST_TEMPERATURES, estimate_log_partitions
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium, HiddenSizeResults
from herdcli.rbm.normalizability import divergence_reason
from herdcli.rbm.settings import Settings
from herdcli.records import dataclass
from herdcli.schema import Array, Matrix

LADDER = (4, 8, 16, 32, 64, 125, 250, 500)
STALE = 2  # after this many overfitted sizes no larger ones are tried
MOST_ROWS = 10_000  # most rows of each model in the evaluation, evenly spread
SUMMED = 20  # log Z is summed over all states if there are at most 2^SUMMED
CHAINS = 100
DIGITS = 3  # sizes are compared by nats rounded to this many decimals


@dataclass
class HiddenSizeResult:
    """The result of one size.

    log_likelihood  mean log-likelihood of the validation rows.
    judged          the criterion by which sizes are compared.
    training        mean log-likelihood of the training rows.
    log_z           method of log Z.
    """

    hidden: int
    log_likelihood: float
    judged: float
    training: float
    log_z: str


@dataclass
class HiddenSizeSearchState:
    """The size that is being learned, the results of those that were evaluated, and the best of them."""

    grows: ClassVar[tuple[str, ...]] = ("current", "best", "tried")  # each size has its own shapes
    step: int
    current: parallel_fits.LearningState
    best: parallel_fits.LearningState | None = None
    tried: list[HiddenSizeResult] = field(default_factory=list)


@dataclass(frozen=True)
class BestHiddenSizeFit:
    """The best size: its settings, its learned models, and the results of all sizes."""

    settings: Settings
    state: parallel_fits.LearningState
    sizes: HiddenSizeResults


@dataclass(frozen=True)
class HiddenSizeSearch(HasStateShapes[HiddenSizeSearchState]):
    """The search as an algorithm; a step is a minibatch of one size, or the evaluation of that size.

    problem  has the validation rows of every model; its number of hidden units is ignored.
    models   how many of the problem's models are evaluated, from the first; 0: all.  map  as in `parallel_fits.RBMLearning`.
    """

    problem: LearningProblem
    models: int = 0
    map: Map = map
    sizes: tuple[int, ...] = LADDER
    _runs: dict[int, parallel_fits.RBMLearning] = field(default_factory=dict, init=False, repr=False, compare=False)
    state = HiddenSizeSearchState  # the type of its states

    def _algorithm_of_size(self, number: int) -> parallel_fits.RBMLearning:
        """Return the learning algorithm of one size, kept while it is used."""
        if number not in self._runs:
            self._runs.clear()
            settings = replace(self.problem.settings, hidden=self._hidden_columns(number))
            self._runs[number] = parallel_fits.RBMLearning(replace(self.problem, settings=settings), self.map)
        return self._runs[number]

    def _hidden_columns(self, number: int) -> int:
        """Return the number of columns of the hidden layer, a whole number of units."""
        group = self.problem.hidden.group
        return -(-self.sizes[number] // group) * group

    def memory(self) -> int:
        """The memory of the two largest sizes in bytes: the largest is learned while the best before it is kept."""
        return sum(self._algorithm_of_size(number).memory() for number in range(len(self.sizes))[-2:])

    def state_template(self) -> HiddenSizeSearchState:
        """Return the state of the first size without initial parameters."""
        return HiddenSizeSearchState(0, self._algorithm_of_size(0).state_template())

    def init(self) -> HiddenSizeSearchState:
        """Return the initial state of the first size.  Raises BadUsage without validation rows."""
        if self.problem.valid is None:
            raise BadUsage("--hidden auto needs validation rows, but there are none", hint="hold out some rows: --split .6,.2,.2")
        return HiddenSizeSearchState(0, self._algorithm_of_size(0).init())

    def done(self, state: HiddenSizeSearchState) -> bool:
        """Whether all sizes were tried, or sizes above the best overfit."""
        tried = state.tried
        best = _best_size_index(tried)
        by_heart = sum(1 for each in tried[best + 1 :] if not each.training < tried[best].training)
        return len(tried) == len(self.sizes) or (by_heart >= STALE and tried[best].judged > -np.inf)

    def step(self, state: HiddenSizeSearchState) -> HiddenSizeSearchState:
        """Run one minibatch of every model of the current size; after its last one evaluate the size and start the next.

        Raises Diverged if in the end no size is a probability distribution.
        """
        run = self._algorithm_of_size(len(state.tried))
        try:
            if not run.done(state.current):
                state.current = run.step(state.current)
                state.step += 1
                return state
            state.current = run.result(state.current)
            size = evaluate_hidden_size(run.problem, state.current, self.models or len(run.problem.rows), self.map)
        except Diverged as error:
            size = HiddenSizeResult(run.problem.settings.hidden, -np.inf, -np.inf, -np.inf, "diverged")
            if len(state.tried) + 1 == len(self.sizes) and state.best is None:
                raise error
        state.tried.append(size)
        if size.judged > -np.inf and _best_size_index(state.tried) == len(state.tried) - 1:
            state.best = state.current
        if not self.done(state):
            state.current = self._algorithm_of_size(len(state.tried)).init()
        state.step += 1
        return state

    def progress(self, state: HiddenSizeSearchState) -> RunProgress:
        """Return the progress with the size that is being learned, and the best so far."""
        if self.done(state):
            return RunProgress(state.step, state.step)
        run = self._algorithm_of_size(len(state.tried))
        inside = "judged" if run.done(state.current) else run.progress(state.current).figure
        figure = f"{run.problem.settings.hidden} hidden" + (f", {inside}" if inside else "")
        if state.best is not None:
            best = state.tried[_best_size_index(state.tried)]
            figure += f", best {best.hidden}: {best.judged:.2f}"
        return RunProgress(state.step, len(self.sizes) * (run.steps + 1), figure, self._completed_fraction(state, run))

    def _completed_fraction(self, state: HiddenSizeSearchState, run: parallel_fits.RBMLearning) -> float:
        """Return the share of the total work that is done: the time of a minibatch is a constant plus a term for its weights."""
        costs = np.array(self.sizes, dtype=np.float64) + 50.0
        number = len(state.tried)
        return float((costs[:number].sum() + state.current.step / (run.steps + 1) * costs[number]) / costs.sum())

    def result(self, state: HiddenSizeSearchState) -> BestHiddenSizeFit:
        """Return the best size with its models."""
        if state.best is None:
            raise Diverged("the fit diverged for every number of hidden units", hint="lower --learning-rate")
        columns = {name: [getattr(each, name) for each in state.tried] for name in vars(state.tried[0])}
        settings = replace(self.problem.settings, hidden=state.tried[_best_size_index(state.tried)].hidden)
        return BestHiddenSizeFit(settings, state.best, HiddenSizeResults(**columns))


def _best_size_index(results: Sequence[HiddenSizeResult]) -> int:
    """Return the index of the best size, the smallest of equal ones; −1 if there is none."""
    return max(range(len(results)), key=lambda number: (results[number].judged, -number), default=-1)


def evaluate_hidden_size(
    problem: LearningProblem, state: parallel_fits.LearningState, model_count: int, map: Map = map
) -> HiddenSizeResult:
    """Evaluate the first `model_count` models of a fit on validation rows, each row under its own model."""
    assert problem.valid is not None
    held, seen = (
        [_discretised_row_subset(problem, state, m, rows[m]) for m in range(model_count)] for rows in (problem.valid, problem.rows)
    )
    found = [_fitted_harmonium(problem, state, m) for m in range(model_count)]
    hidden, seed = problem.settings.hidden, problem.settings.seed
    if problem.settings.joint in ("discriminative", "hybrid"):
        told_apart = [
            _mean_over_rows([_mean_label_posterior(h, rows, map) for h, rows in zip(found, part, strict=True)], part)
            for part in (held, seen)
        ]
        return HiddenSizeResult(hidden, told_apart[0], told_apart[0], told_apart[1], "labels")
    if any(divergence_reason(h.visible, h.hidden, h.W) for h in found):
        raise Diverged("the fitted model has no finite normalising constant")
    if problem.visible.multinomial:
        return _evaluate_word_models(found, held, seen, seed, map)
    bases = [problem.base_rate_parameters(m) for m in range(model_count)]
    estimates = _estimate_log_partitions(found, bases, held, seed, map)
    scale = 0.0 if state.log_scale is None else float(state.log_scale[0].sum(dtype=np.float64))

    def means(part: Sequence[Matrix]) -> list[float]:
        pairs = zip(found, part, estimates, strict=True)
        return [float(row_log_likelihood(h, rows, one.log_partition, map=map).mean()) - scale for h, rows, one in pairs]

    own, low = means(held), []
    for m, (value, one) in enumerate(zip(own, estimates, strict=True)):
        low.append(value - STUDENT * one.standard_error)
        if not one.reliable:
            back = conservative_likelihood_correction(found[m], held[m], one.log_partition, bases[m], BACK_TEMPERATURES, seed, m, map=map)
            low[-1] = min(low[-1], value + back)
    return HiddenSizeResult(
        hidden,
        _mean_over_rows(own, held),
        _mean_over_rows(low, held),
        _mean_over_rows(means(seen), seen),
        _describe_log_z_method(estimates),
    )


def _evaluate_word_models(
    models: Sequence[Harmonium], heldout: Sequence[Matrix], training: Sequence[Matrix], seed: int, map: Map
) -> HiddenSizeResult:
    """Evaluate models of word counts, each row given its length; an annealed log Z counts at the unfavourable end of its interval."""
    means, estimates = np.empty((2, len(models))), []
    for m, (h, *parts) in enumerate(zip(models, heldout, training, strict=True)):
        lengths = np.unique(np.concatenate([word_counts.count_words_per_row(rows) for rows in parts]))
        counts = np.bincount(np.searchsorted(lengths, word_counts.count_words_per_row(parts[0])), minlength=len(lengths))
        log_z = length_annealing.log_partitions_by_length(
            h, lengths, counts, chains=CHAINS, max_sweeps=MOST_TEMPERATURES, seed=seed, unit=m, map=map
        )
        means[:, m] = [word_counts.row_log_likelihoods(h, rows, lengths, log_z.log_z, map=map).mean() for rows in parts]
        estimates.append(log_z.mean)
    low = [float(value) - STUDENT * one.standard_error for value, one in zip(means[0], estimates, strict=True)]
    return HiddenSizeResult(
        len(models[0].c),
        _mean_over_rows(means[0].tolist(), heldout),
        _mean_over_rows(low, heldout),
        _mean_over_rows(means[1].tolist(), training),
        _describe_log_z_method(estimates),
    )


def _describe_log_z_method(estimates: Sequence[LogZEstimate]) -> str:
    """Return how log Z of all models was computed."""
    if all(one.effective is None for one in estimates):
        return "exact"
    return "annealed" if all(one.reliable for one in estimates) else "not reliable"


def _mean_over_rows(values: Sequence[float], rows: Sequence[Matrix]) -> float:
    """Return the mean over all rows from the means over each model's rows."""
    counts = np.array([part.shape[0] for part in rows], dtype=np.float64)
    return round(float(exact_arithmetic.dot(counts, np.array(values))) / float(counts.sum()), DIGITS)


def _fitted_harmonium(problem: LearningProblem, state: parallel_fits.LearningState, m: int) -> Harmonium:
    """Return model m of a fit in float64."""
    W, b, c = (np.asarray(part[m], dtype=np.float64) for part in (state.W, state.b, state.c))
    return Harmonium(W, b, c, problem.visible, problem.hidden)


def _discretised_row_subset(problem: LearningProblem, state: parallel_fits.LearningState, m: int, rows: Matrix) -> Matrix:
    """Return at most MOST_ROWS rows of model m in values that its units can take, divided by the deviations if those are learned."""
    some = select_evenly_spaced(rows, MOST_ROWS)
    if state.log_scale is not None:
        some = np.asarray(some, dtype=np.float64) * exact_arithmetic.exp(-state.log_scale[m].astype(np.float64))
    return problem.visible.round_rows_to_states(some)


def _mean_label_posterior(h: Harmonium, rows: Array, map: Map) -> float:
    """Compute the mean of log p(y | v) of rows with their labels (n, D + C)."""
    assert h.visible.labels is not None
    C = h.visible.labels.group
    found = label_log_posterior(h, rows[:, :-C], map=map)
    return float(found[np.arange(len(rows)), np.asarray(rows[:, -C:]).argmax(axis=1)].mean())


def _estimate_log_partitions(
    models: Sequence[Harmonium], bases: Sequence[Array], heldout: Sequence[Matrix], seed: int, map: Map
) -> list[LogZEstimate]:
    """Estimate log Z of each model."""
    h = models[0]
    fewest = min(log2_state_count(h.visible, h.W.shape[0]), log2_state_count(h.hidden, h.W.shape[1]))
    if fewest <= SUMMED or has_gaussian_layers(h):
        return [LogZEstimate(exact_log_partition(each, map=map), 0.0) for each in models]
    return estimate_log_partitions(models, bases, heldout, CHAINS, MOST_TEMPERATURES, seed, map, None)


def size_search_messages(sizes: HiddenSizeResults) -> tuple[list[str], list[str]]:
    """Return the messages of a search: the chosen number with the figures of all sizes, and a detailed line for each size."""
    best = sizes.best
    what = "per label of validation rows" if sizes.log_z[best] == "labels" else "per validation row"
    top = "; more hidden units than the largest number tried may be better" if sizes.hidden[best] == LADDER[-1] else ""
    first = f"--hidden auto: {sizes.hidden[best]} hidden units, {sizes.judged[best]:.2f} nats {what}{top}"
    lines = []
    for hidden, value, low, way in zip(sizes.hidden, sizes.log_likelihood, sizes.judged, sizes.log_z, strict=True):
        at_least = f", at least {low:.2f}" if low != value else ""
        said = "diverged" if way == "diverged" else f"{value:.2f} nats{at_least}" + ("" if way == "labels" else f" (log Z {way})")
        lines.append(f"{hidden} hidden: {said}")
    figures = ", ".join(f"{hidden}: {low:.2f}" for hidden, low in zip(sizes.hidden, sizes.judged, strict=True))
    return [first, f"tried {figures}"], lines
