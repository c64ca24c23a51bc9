"""The groups of `herd kernel-herd`: one, or one for each value of --by, divided among shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from herdcli.artifacts.message_numbers import shorten_decimals
from herdcli.cli.frame.rows.sampler_columns import left_out_message
from herdcli.cli.frame.run import shards
from herdcli.cli.kernel_herd import results

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.inputs import SelectionInputs
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.result_assembly import SamplesShard
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.selection_problem import SelectionProblem


def select_atoms(session: Session, inputs: SelectionInputs, request: Request) -> None:
    """Choose atoms, and save an artifact of kind `samples` or a shard of one."""
    from herdcli.quadrature.result_assembly import SamplesShard

    count = len(inputs.group_names or "1")
    units = shards.unit_numbers_of_run(session, count, "groups")
    made = SamplesShard(
        place=session.place,
        units=count,
        parts=_select_for_groups(session, inputs, inputs.problem, units, request.weights, request.trace_projected, request.no_state)
        if units and inputs.problem
        else [],
    )
    if session.shard is None:
        results.write_report(session, inputs, made.parts, request.report, request.seed)
    shards.save_units_or_shard(session, made, "groups", partial(save_all_units, left_out=inputs.left_out), inputs.history, request)


def _select_for_groups(
    session: Session,
    inputs: SelectionInputs,
    whole: SelectionProblem,
    units: Sequence[int],
    weights: str,
    trace_projected: bool,
    no_state: bool,
) -> list[Samples]:
    """Return the atoms of the groups with these numbers."""
    from herdcli.quadrature import result_assembly, selection

    names = inputs.group_names
    problem = whole.part(units) if names else whole
    parts = result_assembly.assemble_group_samples(
        problem,
        session.run(selection.AtomSelection(problem, session.map), label="herding", memory="herding"),
        [inputs.rows[g] for g in units] if names else inputs.rows,
        [names[g] for g in units] if names else None,
        kind=weights,
        projected=trace_projected,
        scale=inputs.scale,
        feature_names=inputs.feature_names,
        keep_state=not no_state,
        originals=inputs.originals,
    )
    return [replace(part, image_shape=inputs.image_shape) for part in parts]


def save_all_units(
    session: Session, whole: SamplesShard, history: HistorySource, request: Request, *, left_out: Sequence[str] = ()
) -> None:
    """Save the atoms of all groups as one artifact."""
    from herdcli.quadrature.result_assembly import join_group_samples

    value = join_group_samples(whole.parts)
    results.note_result(session, value, request.count)
    more = f"; {left_out_message(left_out)}" if left_out else ""
    results.save_samples(session, value, f"{len(value.index)} atoms, {shorten_decimals(value.kernel)}", history, more)
