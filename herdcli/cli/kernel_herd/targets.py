"""The ways in and out of `herd kernel-herd` that are its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdcli.artifacts import Artifact
from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.selection import Group
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array

NORM_EXACT, NORM_SAMPLE = 10_000, 2000  # rows up to which ‖μ‖² is exact by default, and drawn beyond


def spilled(session: Session, path: str) -> Artifact | None:
    """Rows of a Parquet file on disk instead of in memory; None for other inputs."""
    from herdcli.artifacts import spill

    if path == "-":
        return None
    artifact = spill.load(path, note=session.console.note)
    if artifact is not None:
        session.inputs["data"] = replace(artifact, value=None)
    return artifact


def whole(text: str, option: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise BadUsage(f"--candidates {option} needs a number above 0")
    return int(text)


def norm_rows(text: str | None, target: Target, given: Array | None) -> int:
    """Rows that ‖μ‖² is estimated from, 0 for none."""
    from herdcli.quadrature.targets import Rows

    if text is not None:
        return 0 if text == "exact" else int(text.partition(":")[2])
    return NORM_SAMPLE if given is not None and isinstance(target, Rows) and len(target.X) > NORM_EXACT else 0


def tell_repeats(session: Session, options: dict[str, Any], groups: list[Group]) -> None:
    """Warn where there are fewer candidates than atoms of a rule that may choose one again."""
    if options["rule"] not in ("herding", "line-search", "open-loop", "step") or options["unique"] or options["polish"]:
        return
    fewest = min(groups, key=lambda group: len(group.points) - group.count)
    if fewest.count > len(fewest.points):
        found = f"{fewest.count} atoms of {len(fewest.points)} candidates: some come more than once"
        session.console.warn(f"{found}; --unique takes each once at most (-m {len(fewest.points)})")


def close(session: Session, value: Samples, count: int) -> None:
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
    if summary.extra is not None:
        session.console.note(
            f"MMD {summary.mmd[0]:.4g} to the union of the blocks' atoms, which is at most {summary.extra[0]:.4g} from all rows"
        )
    if value.ended:
        found = min(_sizes(value))
        why = {"gap": "the target is met to rounding", "rounding": "further atoms are dependent to rounding"}.get(
            value.ended, "iterations ran out"
        )
        session.console.warn(f"{found} atoms instead of {count}: {why}")


def _sizes(value: Samples) -> list[int]:
    return [len(value.members(g)) for g in range(value.groups)]


def check_output(session: Session) -> None:
    """Refuse an output that cannot be made; CSV is written here, as a table for people."""
    from herdcli.artifacts.streams import check_destination

    if _is_csv(session):
        if not session.dry_run:
            check_destination(session.output, clobber=session.clobber)
    else:
        session.check_output("samples")


def _is_csv(session: Session) -> bool:
    return session.output.lower().endswith(".csv") and session.shard is None


def save(session: Session, value: Samples, summary: str, history: Artifact | None) -> None:
    """The samples as an artifact; as Parquet or CSV the atoms alone."""
    if not _is_csv(session):
        plain = replace(value, summary=None, projected=None, state=None) if session.output.lower().endswith(".parquet") else value
        session.save(plain, summary, history=history)
        return
    from herdcli.artifacts import publish, remove_checkpoint
    from herdcli.evaluation.table import comma_separated

    names = value.feature_names or [f"x{j}" for j in range(value.x.shape[1])]
    rows = []
    for i, atom in enumerate(value.x.tolist()):
        group = {} if value.group is None or value.group_names is None else {"group": value.group_names[int(value.group[i])]}
        figures = {"row": int(value.index[i]), "weight": float(value.weight[i]), "mmd": float(value.mmd[i])}
        rows.append(group | figures | dict(zip(names, atom, strict=True)))
    with publish(session.output, clobber=session.clobber) as target:
        target.write_text(comma_separated(rows), encoding="utf-8")
    session.console.note(f"{summary}, {session.console.elapsed():.1f} s → table")
    if session.checkpoint:
        remove_checkpoint(session.checkpoint)
