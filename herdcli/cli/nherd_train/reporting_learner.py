"""A learner of `herd nherd-train` that prints its progressive error while it learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.run.console import Console
from herdcli.online.heldout_examples import best_pass
from herdcli.online.learner import OnlineLearner
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.online.learner_state import LearnerState

STRAINED = 30.0  # value of C·x'Σx on the first examples above which variances shrink to almost 0


@dataclass(frozen=True, kw_only=True)
class ReportingLearner(OnlineLearner):
    """A learner that prints its error and loss after 1, 2, 4, … examples.  chosen  C won a race, so no warning about it is needed."""

    console: Console
    chosen: bool = False

    def step(self, state: LearnerState) -> LearnerState:
        """Learn one block, and print error and loss when they are due."""
        begin, told = state.running[0], state.trace.shape[1]
        passes = _pass_count(state)
        state = super().step(state)
        if begin == 0 and not self.chosen and state.tally[5] > STRAINED and self.settings.algorithm == "nherd":
            strain = f"C·x'Σx reaches {state.tally[5]:.3g} on the first examples"
            self.console.warn(f"{strain}, so the variances shrink to almost 0 at once; use --C auto, --scale online or --normalize l2")
        for seen, error, loss in state.trace[:, told:].T.tolist():
            self.console.note(f"{int(seen):>10} examples: error {error:.4f}, loss {loss:.4f}")
        if (passes and _pass_count(state) > passes) or state.done:
            self._report_pass(state, passes - 1)
        return state

    def report_last_pass(self, state: LearnerState) -> None:
        """Print the error of the last pass on held-out examples if no step has, and the pass whose weights are kept."""
        if self.source.steps is not None and not state.done:
            self._report_pass(state, _pass_count(state) - 1)
        if self.settings.early_stop and state.passes is not None:
            self.console.note(f"the weights of pass {best_pass(state) + 1} are kept, which had the lowest held-out error")

    def _report_pass(self, state: LearnerState, number: int) -> None:
        """Print the error of a pass on held-out examples."""
        if state.passes is not None and number >= 0:
            count, wrong, loss = state.passes[:, number].tolist()
            figures = f"error {wrong / count:.4f}, loss {loss / count:.4f}" if count else "none"
            self.console.note(f"    pass {number + 1:>2}, {int(count)} held-out examples: {figures}")


def _pass_count(state: LearnerState) -> int:
    """Return the number of passes begun with held-out examples."""
    return 0 if state.passes is None else int(state.passes.shape[1])
