"""`herd fit-rbm --cluster` for one model: workers compute groups of rows of each minibatch, and a minibatch is a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.run import block_placement
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.learning.learning_problem import LearningProblem
    from herdcli.rbm.learning.minibatch_statistics import RemoteGroups

DEALT = ("cd", "pcd", "rpcd", "fpcd")  # pt changes temperatures between the groups; the others do not sample rows in groups


def minibatches_on_workers(session: Session, problem: LearningProblem) -> RemoteGroups | None:
    """Return the workers of --cluster for the minibatches of one model; None without --cluster.

    Raises BadUsage for settings that workers do not support.
    """
    if session.cluster is None or session.dry_run:
        return None
    from herdcli.numerics.block_statistics import RemoteSource
    from herdcli.rbm.learning.learning_problem import BLOCK
    from herdcli.rbm.learning.minibatch_statistics import MinibatchSource, RemoteGroups, split_minibatch

    _refuse_unsupported_settings(problem)
    rows = len(problem.rows[0])
    batch = rows // problem.batches(0)
    if len(split_minibatch(batch, problem.chains if problem.settings.has_persistent_chains else batch)) < 2:
        message = f"--cluster distributes blocks of {BLOCK} rows, but a minibatch has only {batch}"
        hint = f"use --batch-size {4 * BLOCK}, or leave out --cluster" if rows > BLOCK else "leave out --cluster"
        raise BadUsage(message, hint=hint)
    minibatch = MinibatchSource()
    there = block_placement.place_blocks_on_workers(session, minibatch, passing=True)
    return RemoteGroups(minibatch, there) if isinstance(there, RemoteSource) else None


def _refuse_unsupported_settings(problem: LearningProblem) -> None:
    """Raise BadUsage for settings whose state passes from group to group, or whose gradients need all rows together."""
    settings = problem.settings
    if settings.algorithm not in DEALT and not settings.tempers_lengths:
        message = f"--cluster works with --algorithm cd, pcd, rpcd and fpcd, not with {settings.algorithm}"
        raise BadUsage(message, hint="use --algorithm cd, or leave out --cluster")
    if settings.joint in ("discriminative", "hybrid"):
        raise BadUsage(f"--labels {settings.joint} does not work with --cluster", hint="use --labels generative, or leave out --cluster")
    if settings.optimizer == "natural":
        raise BadUsage("--optimizer natural does not work with --cluster", hint="use --optimizer adam, or leave out --cluster")
