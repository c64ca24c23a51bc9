"""The pseudo-samples of `herd sample` on an artifact of herding: its last states, with text columns by the names of their levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Dataset
from herdcli.cli.small.state_names import decode_one_hot_columns
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.small.sample import Request
    from herdcli.herding.model import Herding

WITHOUT_EFFECT = ("burn_in", "chains", "thin", "means", "given", "mask", "seed")


def sample_herding(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the last pseudo-samples of each run as rows of 0 and 1 or of named states, and a short description for the summary."""
    model: Herding = fitted.value
    for option in WITHOUT_EFFECT:
        session.warn_of_ignored_option(option, "with a model of kind herding, whose rows are its pseudo-samples")
    if model.features == "rows":
        raise DataError(
            "cannot draw new rows: this run chose its pseudo-samples among the input rows (--features rows)",
            where=fitted.name,
            hint="write the chosen rows: herd convert FILE -o FILE.nc",
        )
    kept = model.states.shape[1]
    if ("count" in session.given and request.count > kept) or not kept:
        raise BadUsage(
            f"the file keeps {kept} pseudo-samples of each run, fewer than the {request.count} requested",
            where=fitted.name,
            hint="keep more of them: herd herd --keep-last N",
        )
    count = min(kept, request.count)
    x = np.concatenate([model.kept_samples(run)[0][-count:] for run in range(model.count)]) > 0
    names = model.feature_names
    if names is not None and model.units is not None:
        names = [names[unit] for unit in model.units]
    omitted = 0 if model.units is None else model.all_units - len(model.units)
    y = None if model.classes is None else np.repeat(np.arange(model.count), count)
    shape = None if omitted else model.image_shape
    rows = Dataset(x.astype(np.uint8), y=y, class_names=model.classes, units="real", feature_names=names, image_shape=shape)
    made, states, decoded = decode_one_hot_columns(rows, session.recoding)
    session.recoding = states or session.recoding
    if omitted - decoded:
        number = omitted - decoded
        what = "1 column that is" if number == 1 else f"{number} columns that are"
        session.console.note(f"left out {what} the same in all training rows")
    return made, f"{len(made.X)} rows × {made.X.shape[1]} columns, pseudo-samples"
