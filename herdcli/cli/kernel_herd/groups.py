"""The groups of `herd kernel-herd`: one, or one for each value of --by, of which a shard does its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdcli import fast
from herdcli.cli.frame import shards
from herdcli.cli.frame.session import Session
from herdcli.cli.kernel_herd import targets as kernel_herd_tables
from herdcli.cli.kernel_herd.inputs import Inputs

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.quadrature.assemble import SamplesShard
    from herdcli.quadrature.samples import Samples


def run(session: Session, inputs: Inputs, options: Mapping[str, Any]) -> None:
    """Choose atoms, and save `samples` or a shard of them."""
    from herdcli.quadrature.assemble import SamplesShard

    if fast.instruction_set() == "avx2+fma":  # whose sums differ in their last bits
        session.parameters["simd"] = "avx2+fma"
    count = len(inputs.group_names or "1")
    units = shards.units(session, count, "groups")
    made = SamplesShard(place=session.place, units=count, parts=_chosen(session, inputs, units, options) if units else [])
    shards.close(session, made, "groups", finish, inputs.history, options)


def _chosen(session: Session, inputs: Inputs, units: Sequence[int], options: Mapping[str, Any]) -> list[Samples]:
    """The atoms of the groups of these numbers."""
    from herdcli.quadrature import assemble, selection

    names, whole = inputs.group_names, inputs.problem
    problem = whole.part(units) if names else whole
    session.require_memory(selection.estimate(problem), "herding")
    chosen = selection.Selection(problem, session.map)
    return assemble.one_by_one(
        problem,
        session.iterate(chosen.step, chosen.init, steps=selection.total_steps(problem), label="herding"),
        [inputs.rows[g] for g in units] if names else inputs.rows,
        [names[g] for g in units] if names else None,
        kind=options["weights"],
        projected=options["trace_projected"],
        scale=inputs.scale,
        feature_names=inputs.feature_names,
        keep_state=not options["no_state"],
    )


def finish(session: Session, whole: SamplesShard, history: Artifact | None, options: Mapping[str, Any]) -> None:
    """Save the atoms of all groups as one artifact."""
    from herdcli.quadrature.assemble import together

    value = together(whole.parts)
    kernel_herd_tables.close(session, value, options["count"])
    kernel_herd_tables.save(session, value, f"{len(value.index)} atoms, {value.kernel}", history)
