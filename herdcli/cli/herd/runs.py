"""The runs of `herd herd`: one, or one for each class, divided among shards; the dynamics are in herdcli.herding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.output.animations import write_animations
from herdcli.cli.frame.run import shards
from herdcli.errors import NotConverged

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.herd.inputs import HerdingInputs
    from herdcli.cli.herd.request import Request
    from herdcli.herding.class_runs import HerdingShard
    from herdcli.herding.model import Herding


def run_and_save_herding(session: Session, inputs: HerdingInputs, request: Request) -> None:
    """Run herding and save an artifact of kind `herding` or a shard of one."""
    from herdcli.herding.class_runs import HerdingShard

    count = inputs.problem.count
    units = shards.unit_numbers_of_run(session, count, "runs")
    made = HerdingShard(place=session.place, units=count, parts=_herd_units(session, inputs, units, request.plots) if units else [])
    shards.save_units_or_shard(session, made, "runs", save_all_units, inputs.history, request)


def _herd_units(session: Session, inputs: HerdingInputs, units: Sequence[int], plots: tuple[tuple[str, str], ...]) -> list[Herding]:
    """Run herding for the units with these numbers and return one result per unit."""
    from herdcli.herding.class_runs import split_into_artifacts

    problem = inputs.problem.part(units)
    algorithm = inputs.algorithm(problem, session.map)
    state = session.run(algorithm, label="herding", memory="herding")
    parts = split_into_artifacts(problem, state, inputs.finish)
    if plots and inputs.image_shape is not None:
        from herdcli.evaluation.plots.animations import herding_panels
        from herdcli.evaluation.plots.herding_plots import restore_pruned_units

        panels = herding_panels(algorithm, partial(restore_pruned_units, parts[0]), inputs.image_shape)
        captions = [f"iteration {t + 1} of {parts[0].iterations}" for t in range(len(panels[0].frames))]
        write_animations(session, plots, panels, captions)
    return parts


def save_all_units(session: Session, whole: HerdingShard, history: HistorySource, request: Request) -> None:
    """Save all runs as one artifact."""
    from herdcli.herding.class_runs import combine_run_artifacts

    value = combine_run_artifacts(whole.parts)
    runs = f"{value.count} runs × " if value.count > 1 else ""
    outputs.write_artifact(
        session, value, f"{runs}{value.iterations} iterations, moments to {value.gap.largest_visible.max():.2g}", history=history
    )
    _warn_of_growing_weights(session, value, request.on_nonconvergence)


def _warn_of_growing_weights(session: Session, value: Herding, reaction: str) -> None:
    """Warn about weights that grow without bound, or raise NotConverged; the result has already been written."""
    from herdcli.herding.model import GROWTH

    if value.decoupled:
        session.console.note("the driving rates only approximate the data, so the weights keep growing slowly")
    if value.growth <= GROWTH or value.decoupled:
        return
    message = (
        f"the weights grow without bound: ‖w‖ grew {value.growth:.2f}-fold in the second half of the run (at most {GROWTH:g} is expected)"
    )
    hint = "try --variant safe" if value.c is not None else "use --maximiser exact or enumerate"
    if value.visible_growth > GROWTH and not value.flip and value.variant == "local" and value.representation == "spin":
        hint = "the weights of the visible units grow, perhaps because hidden units learned the inverted data; try --flip or --variant safe"
    if reaction == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}")
