"""The groups of `herd kernel-herd`: one, or one for each value of --by, of which a shard does its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from herdcli.artifacts.wording import rounded
from herdcli.cli.frame import shards
from herdcli.cli.kernel_herd import results
from herdcli.cli.kernel_herd.chains import not_coordinates

if TYPE_CHECKING:
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.kernel_herd.inputs import Inputs
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.assemble import SamplesShard
    from herdcli.quadrature.problems import Problem
    from herdcli.quadrature.samples import Samples


def run(session: Session, inputs: Inputs, request: Request) -> None:
    """Choose atoms, and save `samples` or a shard of them."""
    from herdcli.quadrature.assemble import SamplesShard

    count = len(inputs.group_names or "1")
    units = shards.units(session, count, "groups")
    made = SamplesShard(
        place=session.place, units=count, parts=_chosen(session, inputs, inputs.problem, units, request) if units and inputs.problem else []
    )
    if session.shard is None:
        results.report(session, inputs, made.parts, request)
    shards.close(session, made, "groups", partial(finish, left_out=inputs.left_out), inputs.history, request)


def _chosen(session: Session, inputs: Inputs, whole: Problem, units: Sequence[int], request: Request) -> list[Samples]:
    """The atoms of the groups of these numbers."""
    from herdcli.quadrature import assemble, selection

    names = inputs.group_names
    problem = whole.part(units) if names else whole
    return assemble.one_by_one(
        problem,
        session.run(selection.Selection(problem, session.map), label="herding", memory="herding"),
        [inputs.rows[g] for g in units] if names else inputs.rows,
        [names[g] for g in units] if names else None,
        kind=request.weights,
        projected=request.trace_projected,
        scale=inputs.scale,
        feature_names=inputs.feature_names,
        keep_state=not request.no_state,
    )


def finish(session: Session, whole: SamplesShard, history: History, request: Request, *, left_out: Sequence[str] = ()) -> None:
    """Save the atoms of all groups as one artifact."""
    from herdcli.quadrature.assemble import together

    value = together(whole.parts)
    results.tell(session, value, request.count)
    more = f"; {not_coordinates(left_out)}" if left_out else ""
    results.save(session, value, f"{len(value.index)} atoms, {rounded(value.kernel)}", history, more)
