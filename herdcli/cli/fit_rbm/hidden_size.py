"""`herd fit-rbm --hidden auto`: the number of hidden units, chosen on validation rows by herdcli.rbm.learning.hidden_size_search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.learning.hidden_size_search import BestHiddenSizeFit
    from herdcli.rbm.learning.learning_problem import LearningProblem


def refuse_shards(session: Session) -> None:
    """Raise BadUsage for --shard or --cluster, because each size follows from the sizes before it."""
    for name in ("shard", "cluster"):
        if getattr(session, name) is not None:
            hint = f"leave out --{name}, or give --hidden a number"
            why = "because it fits models of several sizes one after the other"
            raise BadUsage(f"--hidden auto cannot be used with --{name}, {why}", hint=hint)


def choose_hidden_size(session: Session, problem: LearningProblem, models: int) -> BestHiddenSizeFit:
    """Return the models of the best size and print the scores of all sizes.

    models  how many of the problem's models are evaluated on held-out rows, the first ones.
    """
    from herdcli.rbm.learning.hidden_size_search import HiddenSizeSearch, size_search_messages

    label = f"learning by {problem.settings.algorithm}" if session.dry_run else "learning"
    found = session.run(HiddenSizeSearch(problem, models, session.map), label=label)
    said, more = size_search_messages(found.sizes)
    for line in said:
        session.console.note(line)
    for line in more:
        session.console.detail(line)
    return found
