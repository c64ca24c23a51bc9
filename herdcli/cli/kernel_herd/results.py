"""The output of `herd kernel-herd`: an artifact or a table of the atoms, and messages about the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.kernel_herd import embedding_choice

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.inputs import SelectionInputs
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.evaluation.table import Row
    from herdcli.quadrature.samples import Samples

ENDED = {"gap": "up to rounding, these match the target exactly", "rounding": "up to rounding, further atoms depend on the chosen ones"}


def check_output(session: Session, request: Request) -> None:
    """Raise an error for an output that cannot be written; CSV output is written by this module as a table."""
    if request.report is not None:
        outputs.check_side_file(session, request.report, binary=False)
    if _is_csv(session):
        outputs.check_text_output(session)
    else:
        outputs.check_artifact_output(session, "samples")


def save_samples(session: Session, value: Samples, summary: str, history: HistorySource, summary_end: str = "") -> None:
    """Save the samples as an artifact; as Parquet or CSV only the atoms.  The last line is `summary`, the MMD, and `summary_end`."""
    from herdcli.evaluation.table import to_csv

    summary += random_comparison_text(value) + summary_end
    if _is_csv(session):
        outputs.write_text_result(session, to_csv(_atom_rows(value)), summary, "table")
        return
    table = session.output.lower().endswith(".parquet")
    outputs.write_artifact(session, replace(value, summary=None, projected=None, state=None) if table else value, summary, history=history)


def random_comparison_text(value: Samples) -> str:
    """Return text with the largest MMD of a group, and the MMD expected for the same number of random rows of that group."""
    summary = value.summary
    if summary is None or not len(summary.mmd):
        return ""
    g = int(np.argmax(summary.mmd))
    count, rows = len(value.group_positions(g)), int(summary.rows[g])
    # E MMD² of m independent rows is (E k(x,x) − ‖μ‖²)/m; `floor` is its root for all rows, for closed forms its root for the atoms.
    random = float(summary.floor[g]) * ((rows or count) / count) ** 0.5
    if not np.isfinite(random):
        return ""
    name = "" if value.groups == 1 or value.group_names is None else f" in group {value.group_names[g]}, the largest of {value.groups}"
    return f", MMD {summary.mmd[g]:.4g}{name} ({count} random {'rows' if rows else 'draws'}: {random:.4g})"


def write_report(session: Session, inputs: SelectionInputs, parts: Sequence[Samples], report: str | None, seed: int) -> None:
    """Write --thinning-report: per parameter, statistics of all rows and of the chosen rows, and the error of as many random rows."""
    from herdcli.evaluation.metrics.thinning_error import compare_statistics
    from herdcli.evaluation.table import to_aligned_text, to_csv
    from herdcli.quadrature.targets import RowTarget

    problem = inputs.problem
    if report is None or problem is None:
        return
    names = inputs.feature_names or [f"x{j}" for j in range(len(inputs.scale))]
    rows: list[Row] = []
    for g, (group, value) in enumerate(zip(problem.groups, parts, strict=True)):
        assert isinstance(group.target, RowTarget)
        own: Row = {} if inputs.group_names is None else {"group": inputs.group_names[g]}
        X = group.target.X * inputs.scale
        found = compare_statistics(X, group.target.weights, value.x, value.weight, seed, unit=g)
        for j, name in enumerate(names):
            for statistic, all_rows, chosen, error in found[j]:
                rows.append(own | {"parameter": name, "statistic": statistic, "all": all_rows, "chosen": chosen, "random_error": error})
    text = to_csv(rows) if report.lower().endswith(".csv") else to_aligned_text(rows)
    outputs.write_side_file(session, report, lambda path: outputs.write_text(path, text), binary=False)


def _is_csv(session: Session) -> bool:
    return session.output.lower().endswith(".csv") and session.shard is None


def _atom_rows(value: Samples) -> list[Row]:
    """Return one row per atom: group, row, weight, MMD, columns."""
    from herdcli.evaluation.summaries.whole_tables import atom_columns

    columns = atom_columns(value, {})
    values = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def note_result(session: Session, value: Samples, count: int) -> None:
    """Print the MMD and the effective size, how exact they are, and a warning if there are fewer atoms than requested."""
    summary = value.summary
    if summary is None:
        return
    for g in range(value.groups):
        name = "" if value.group_names is None else f"{value.group_names[g]}: "
        figures = f"MMD {summary.mmd[g]:.4g} (sampling floor {summary.floor[g]:.4g}), effective size {summary.effective[g]:.1f}"
        session.console.detail(f"{name}{figures}, smallest weight {summary.smallest[g]:.3g}, condition {summary.condition[g]:.3g}")
    if summary.norm_error is not None:
        from herdcli.evaluation.figures.samples import mmd_standard_error

        figure = f"MMD {summary.mmd[0]:.4g} ± {mmd_standard_error(summary)[0]:.2g}"
        session.console.note(
            f"{figure}, where the squared norm of the mean embedding is estimated; --norm exact computes it from all pairs of rows"
        )
    embedding_choice.note_embedding_error(session, value)
    if summary.extra is not None:
        session.console.note(
            f"MMD {summary.mmd[0]:.4g} to the union of the blocks' atoms, whose MMD to all rows is at most {summary.extra[0]:.4g}"
        )
    if value.ended:
        found = min(len(value.group_positions(g)) for g in range(value.groups))
        session.console.warn(f"only {found} of {count} atoms were chosen: {ENDED.get(value.ended, 'iterations ran out')}")
