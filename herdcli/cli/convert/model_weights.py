"""`herd convert` for models: imports weights of other programs for eval, apply and sample, and exports models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.errors import DataError
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path

if TYPE_CHECKING:
    from herdcli.artifacts.formats.foreign_weights import ForeignWeights
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.online.model import Classifier
    from herdcli.rbm.layers import DBN
    from herdcli.rbm.model import RBM

OF_WEIGHTS = {"units", "visible_units", "hidden_units", "threshold", "value_range"}
UNITS = {"units", "visible_units", "hidden_units"}
EXPORTING = {"source", "format", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}
USED = {*OF_WEIGHTS, "source", "to", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}


def warn_of_ignored_options(session: Session, names: set[str], why: str) -> None:
    """Warn of each of these options that was typed but has no effect."""
    for param in click.get_current_context().command.params:
        if param.name in session.given & names:
            session.console.warn(f"{max(param.opts, key=len)} has no effect {why}")


def import_model(session: Session, request: Request) -> None:
    """Read weights as the kind of --to and save them as a model."""
    from herdcli.rbm.normalizability import require_normalisable
    from herdcli.schema import check_arrays

    page = KINDS[request.to]
    warn_of_ignored_options(session, session.given - (USED if page.harmonium else USED - OF_WEIGHTS), f"with --to {request.to}")
    outputs.check_artifact_output(session, request.to)
    made, summary = import_by_path(str(page.imports))(session, request)
    read = session.inputs["weights"]
    try:
        check_arrays(made, where=read.name)
        for harmonium in made.harmoniums() if hasattr(made, "harmoniums") else ():
            require_normalisable(harmonium)
    except DataError as error:
        error.where = error.where or read.name
        raise
    outputs.write_artifact(session, made, summary, history=read)


def import_rbm(session: Session, request: Request) -> tuple[RBM, str]:
    """Return a model from weights and biases, and a summary."""
    from herdcli.artifacts import memory_budget
    from herdcli.artifacts.formats import foreign_weights

    found = foreign_weights.read_weights(
        request.source, limit=session.max_memory or memory_budget.default_memory_limit(), note=session.console.note
    )
    _record_input(session, found.sha256, found.name, found.size)
    units = _unit_names(
        session,
        request.visible_units,
        request.hidden_units,
        request.units,
        [found.about.get(name) for name in ("visible_units", "hidden_units")],
    )
    return _rbm_from_weights(
        request.value_range, request.threshold, found, units[0], units[1]
    ), f"{len(found.b)} visible, {len(found.c)} hidden units"


def import_dbn(session: Session, request: Request) -> tuple[DBN, str]:
    """Return a deep belief network from the weights and biases of its layers, and a summary."""
    from herdcli.artifacts import memory_budget
    from herdcli.artifacts.formats import foreign_weights
    from herdcli.rbm.layers import DBN

    layers = foreign_weights.read_layers(
        request.source, limit=session.max_memory or memory_budget.default_memory_limit(), note=session.console.note
    )
    _record_input(session, layers[0].sha256, layers[0].name, layers[0].size)
    known = layers[0].about.get("units", "").split(",")
    lowest, above = _unit_names(session, request.visible_units, request.hidden_units, request.units, [known[0], known[-1]])
    told = known if len(known) == len(layers) + 1 and not session.given & UNITS else [lowest, *[above] * len(layers)]
    models = [
        _rbm_from_weights(request.value_range, request.threshold, part, told[index], told[index + 1], lowest=index == 0)
        for index, part in enumerate(layers)
    ]
    return DBN(models), f"{len(layers[0].b)} visible units, {len(layers)} layers"


def import_classifier(session: Session, request: Request) -> tuple[Classifier, str]:
    """Return a classifier from the weights of Vowpal Wabbit, and a summary."""
    from herdcli.cli.frame.rows.network_files import load_parsed_text
    from herdcli.exchange import vowpal_models

    model = load_parsed_text(
        session, request.source, "weights", lambda text: vowpal_models.read_model(text, session.require_memory, session.console.note)
    )
    assert model.mean is not None
    session.console.note("the model is a two-class classifier with the scores of Vowpal Wabbit; its probabilities are not calibrated")
    return model, f"{int((model.mean != 0).sum())} weights of 2^{model.bits}"


def _record_input(session: Session, sha256: str, name: str, size: int) -> None:
    from herdcli.artifacts import Artifact

    session.inputs["weights"] = Artifact("weights", None, [], sha256, name, size, False)


def _unit_names(
    session: Session, visible_units: str | None, hidden_units: str | None, units: str, file_units: list[str | None]
) -> list[str]:
    """Return visible and hidden units: as typed, else from the file, else those of --units."""
    typed = visible_units, hidden_units
    both = "units" in session.given
    return [own or (None if both else known) or units for own, known in zip(typed, file_units, strict=True)]


def _rbm_from_weights(
    value_range: tuple[float, float] | None,
    threshold: float | None,
    weights: ForeignWeights,
    visible: str,
    hidden: str,
    *,
    lowest: bool = True,
) -> RBM:
    from herdcli.rbm.model import rbm_from_weights

    limits = None if value_range is None or not lowest else np.array(value_range)
    return replace(
        rbm_from_weights(weights.W, weights.b, weights.c, visible, hidden),
        threshold=threshold if lowest else None,
        value_range=limits,
    )


def export_model(session: Session, source: str, form: str) -> None:
    """Write a model in a format of other programs."""
    from herdcli.kinds import kinds_exporting

    warn_of_ignored_options(session, session.given - EXPORTING, f"with a model that becomes {form}")
    able = kinds_exporting(form)
    outputs.check_artifact_output(session, able[0], form)
    model = session.load(source, "model", kinds=able)
    outputs.write_artifact(session, model.value, f"{model.kind} as {form}", history=model, format=form)
