"""`herd convert` of models: weights of other programs become one that eval, apply and sample can use, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np

from herdcli.cli.frame import outputs
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts.weights import Weights
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.online.model import Classifier
    from herdcli.rbm.layers import DBN
    from herdcli.rbm.model import RBM

OF_WEIGHTS = {"units", "visible_units", "hidden_units", "threshold", "value_range"}
Reader = Callable[["Session", "Request"], tuple["RBM | DBN | Classifier", str]]  # the model of a request, and what it is in words
UNITS = {"units", "visible_units", "hidden_units"}
HARMONIUMS = ("rbm", "dbn")
EXPORTING = {"source", "format", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}
USED = {*OF_WEIGHTS, "source", "to", "output", "no_clobber", "lock", "quiet", "verbose", "debug", "max_memory"}


def warn_of_idle(session: Session, names: set[str], why: str) -> None:
    """Say which of these options were typed and do nothing."""
    for param in click.get_current_context().command.params:
        if param.name in session.given & names:
            session.console.warn(f"{max(param.opts, key=len)} has no effect {why}")


def import_model(session: Session, request: Request) -> None:
    """Read what --to names and save it as a model."""
    from herdcli.rbm.proper import require_proper
    from herdcli.schema import check

    warn_of_idle(session, session.given - (USED if request.to in HARMONIUMS else USED - OF_WEIGHTS), f"with --to {request.to}")
    outputs.check(session, request.to)
    readers: dict[str, Reader] = {"rbm": _rbm, "dbn": _dbn, "classifier": _classifier}
    made, summary = readers[request.to](session, request)
    read = session.inputs["weights"]
    try:
        check(made, where=read.name)
        for harmonium in made.harmoniums() if hasattr(made, "harmoniums") else ():
            require_proper(harmonium)
    except DataError as error:
        error.where = error.where or read.name
        raise
    outputs.artifact(session, made, summary, history=read)


def _rbm(session: Session, request: Request) -> tuple[RBM, str]:
    from herdcli.artifacts import memory, weights

    found = weights.read(request.source, limit=session.max_memory or memory.default_limit(), note=session.console.note)
    _remember(session, found.sha256, found.name, found.size)
    units = _units(session, request, [found.about.get(name) for name in ("visible_units", "hidden_units")])
    return _imported(request, found, units[0], units[1]), f"{len(found.b)} visible, {len(found.c)} hidden units"


def _dbn(session: Session, request: Request) -> tuple[DBN, str]:
    from herdcli.artifacts import memory, weights
    from herdcli.rbm.layers import DBN

    layers = weights.read_layers(request.source, limit=session.max_memory or memory.default_limit(), note=session.console.note)
    _remember(session, layers[0].sha256, layers[0].name, layers[0].size)
    known = layers[0].about.get("units", "").split(",")
    lowest, above = _units(session, request, [known[0], known[-1]])
    told = known if len(known) == len(layers) + 1 and not session.given & UNITS else [lowest, *[above] * len(layers)]
    models = [_imported(request, part, told[index], told[index + 1], lowest=index == 0) for index, part in enumerate(layers)]
    return DBN(models), f"{len(layers[0].b)} visible units, {len(layers)} layers"


def _classifier(session: Session, request: Request) -> tuple[Classifier, str]:
    from herdcli.cli.frame.networks import load_text
    from herdcli.exchange import vowpal

    model = load_text(session, request.source, "weights", lambda text: vowpal.read(text, session.require_memory, session.console.note))
    assert model.mean is not None
    session.console.note("of two classes, with probabilities that are not calibrated; scores are Vowpal Wabbit's")
    return model, f"{int((model.mean != 0).sum())} weights of 2^{model.bits}"


def _remember(session: Session, sha256: str, name: str, size: int) -> None:
    from herdcli.artifacts import Artifact

    session.inputs["weights"] = Artifact("weights", None, [], sha256, name, size, False)


def _units(session: Session, request: Request, told: list[str | None]) -> list[str]:
    """Visible and hidden units: as typed, else as the file says, else those of --units."""
    typed = request.visible_units, request.hidden_units
    both = "units" in session.given
    return [own or (None if both else known) or request.units for own, known in zip(typed, told, strict=True)]


def _imported(request: Request, found: Weights, visible: str, hidden: str, *, lowest: bool = True) -> RBM:
    from herdcli.rbm.model import imported

    limits = None if request.value_range is None or not lowest else np.array(request.value_range)
    return replace(
        imported(found.W, found.b, found.c, visible, hidden), threshold=request.threshold if lowest else None, value_range=limits
    )


def export(session: Session, request: Request, form: str) -> None:
    """Write a model as other programs read it."""
    from herdcli.kinds import exporting

    warn_of_idle(session, session.given - EXPORTING, f"with a model that becomes {form}")
    able = exporting(form)
    outputs.check(session, able[0], form)
    model = session.load(request.source, "model", kinds=able)
    outputs.artifact(session, model.value, f"{model.kind} as {form}", history=model, format=form)
