"""What leaves `herd kernel-herd`: an artifact, or a table of the atoms alone, and what a person should know of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame import outputs
from herdcli.cli.kernel_herd import embedding

if TYPE_CHECKING:
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.evaluation.table import Row
    from herdcli.quadrature.samples import Samples

ENDED = {"gap": "the target is met to rounding", "rounding": "further atoms are dependent to rounding"}


def check(session: Session) -> None:
    """Refuse an output that cannot be made; CSV is written here, as a table for people."""
    if _is_csv(session):
        outputs.check_text(session)
    else:
        outputs.check(session, "samples")


def save(session: Session, value: Samples, summary: str, history: History) -> None:
    """The samples as an artifact; as Parquet or CSV the atoms alone."""
    from herdcli.evaluation.table import comma_separated

    if _is_csv(session):
        outputs.text(session, comma_separated(_atoms(value)), summary, "table")
        return
    table = session.output.lower().endswith(".parquet")
    outputs.artifact(session, replace(value, summary=None, projected=None, state=None) if table else value, summary, history=history)


def _is_csv(session: Session) -> bool:
    return session.output.lower().endswith(".csv") and session.shard is None


def _atoms(value: Samples) -> list[Row]:
    """A row for each atom: group, row, weight, MMD, columns."""
    names = value.feature_names or [f"x{j}" for j in range(value.x.shape[1])]
    rows: list[Row] = []
    for i, atom in enumerate(value.x.tolist()):
        group: Row = {} if value.group is None or value.group_names is None else {"group": value.group_names[int(value.group[i])]}
        figures: Row = {"row": int(value.index[i]), "weight": float(value.weight[i]), "mmd": float(value.mmd[i])}
        rows.append(group | figures | dict(zip(names, atom, strict=True)))
    return rows


def tell(session: Session, value: Samples, count: int) -> None:
    """What a person should know of the result."""
    summary = value.summary
    if summary is None:
        return
    for g in range(value.groups):
        name = "" if value.group_names is None else f"{value.group_names[g]}: "
        figures = f"MMD {summary.mmd[g]:.4g} (sampling floor {summary.floor[g]:.4g}), effective size {summary.effective[g]:.1f}"
        session.console.detail(f"{name}{figures}, smallest weight {summary.smallest[g]:.3g}, condition {summary.condition[g]:.3g}")
    if summary.norm_error is not None:
        from herdcli.evaluation.samples import mmd_error

        figure = f"MMD {summary.mmd[0]:.4g} ± {mmd_error(summary)[0]:.2g}"
        session.console.note(f"{figure}, ‖μ‖² being estimated; --norm exact takes all pairs of rows")
    embedding.tell(session, value)
    if summary.extra is not None:
        session.console.note(
            f"MMD {summary.mmd[0]:.4g} to the union of the blocks' atoms, which is at most {summary.extra[0]:.4g} from all rows"
        )
    if value.ended:
        found = min(len(value.members(g)) for g in range(value.groups))
        session.console.warn(f"{found} atoms instead of {count}: {ENDED.get(value.ended, 'iterations ran out')}")
