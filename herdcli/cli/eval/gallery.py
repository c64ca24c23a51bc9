"""What `herd eval --gallery` does with a model of pairs: images to recognise, images to find them among, and the rivals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from herdcli.artifacts import holdout, preparation
from herdcli.cli.frame.columns import by_name
from herdcli.cli.frame.options import Parsed
from herdcli.cli.frame.session import Session
from herdcli.errors import DataError
from herdcli.splits import TEST, TRAIN, VALID

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.schema import Array

GALLERY = ("gallery", "probes", "probe_sets", "gallery_images", "drop_first", "dimensions")  # the options of `gallery_options`
PARTS = {"test": TEST, "valid": VALID}
Row = dict[str, Any]


def _parse_dimensions(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("is not four numbers EIGEN,FISHER,WITHIN,BETWEEN from 1 upwards")
    return tuple(map(int, parts))


DIMENSIONS = Parsed("eigen,fisher,within,between", _parse_dimensions)


def gallery_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--gallery and the options that go with it."""
    for option in (
        click.option(
            "--dimensions",
            type=DIMENSIONS,
            default="199,200,10,30",
            show_default=True,
            metavar="E,F,W,B",
            help="Gallery: sizes of eigenfaces, fisherfaces and the two models of δppca, fewer where the data forbid.",
        ),
        click.option("--drop-first", type=click.IntRange(0), default=0, show_default=True, help="Gallery: leading eigenfaces left out."),
        click.option(
            "--gallery-images", type=click.IntRange(1), default=None, help="Gallery: images of each person in it.  [default: all]"
        ),
        click.option(
            "--probe-sets",
            metavar="COLUMN",
            default=None,
            help="Gallery: error rates for each value of this column.  [default: probe_set, if there]",
        ),
        click.option(
            "--probes", type=click.Choice(["test", "valid"]), default="test", show_default=True, help="Gallery: rows to recognise."
        ),
        click.option(
            "--gallery",
            metavar="DATA",
            default=None,
            help="Pairs: rank-n error rates when test rows of DATA are looked for among its training rows.",
        ),
    ):
        command = option(command)
    return command


def recognising(session: Session, artifact: Artifact, options: Row) -> Artifact:
    """A model of pairs with the images of --gallery; other artifacts, and without the option all, as they are."""
    if options["gallery"] is None or artifact.kind != "rbm-pairs":
        for name in GALLERY if options["gallery"] is None else ("gallery",):
            session.ignored(name, "without --gallery" if options["gallery"] is None else f"with kind {artifact.kind}")
        return artifact
    from herdcli.cli.frame.rows import Reading, in_units
    from herdcli.evaluation.gallery import Dimensions, Recognition
    from herdcli.rbm.units import family

    model = artifact.value
    wanted = () if options["probe_sets"] is None else (options["probe_sets"],)
    data = session.load(options["gallery"], "gallery", kinds={"dataset"}, keep=wanted)
    data = by_name(session, data, model.feature_names, len(model.W1))
    if data.value.X.shape[1] != len(model.W1):
        raise DataError(f"/X has {data.value.X.shape[1]} columns, the model has {len(model.W1)} pixels", where=data.name)
    known = {"threshold": model.threshold, "value_range": None if model.value_range is None else tuple(model.value_range), "split": None}
    rows = in_units(session, data, family(model.settings.visible_units), Reading.asked(options | known, default=0.5))
    persons, names = rows.labelled(data.name, "--gallery")
    split = _split(session, artifact, data, rows.split)
    train, probes = (np.flatnonzero(split == part) for part in (TRAIN, PARTS[options["probes"]]))
    for part, indices in (("training", train), (options["probes"], probes)):
        if not len(indices):
            raise DataError(f"no row is in the {part} part", where=data.name, hint="herd convert --split draws parts anew")
    count = options["gallery_images"]
    value = Recognition(
        model=model,
        units=rows.X,
        images=preparation.dense(data.value, np.float64),
        persons=np.array(names)[persons],
        train=train,
        gallery=train if count is None else holdout.some_of_each(persons, train, count, options["seed"]),
        probes=probes,
        sets=_sets(data, options["probe_sets"], options["probes"])[probes],
        dimensions=Dimensions(options["drop_first"], *options["dimensions"]),
    )
    return replace(artifact, value=value)


def _split(session: Session, artifact: Artifact, data: Artifact, own: Array) -> Array:
    """The parts that the model was learned with if these are its data, else those of the data set itself."""
    learned = next((record for record in reversed(artifact.history) if record["command"] == "fit-rbm"), None)
    if learned and any(item["sha256"] == data.sha256 for item in learned["inputs"]):
        parts: Array = artifact.value.split
        return parts
    session.console.note(f"{data.name} is not what the model was learned from: its own split says what is gallery and what is probe")
    return own


def _sets(data: Artifact, column: str | None, part: str) -> Array:
    """The test set (n,) of each row, as text."""
    columns = data.value.columns or {}
    if column is None and holdout.PROBE_SET not in columns:
        return np.full(data.value.X.shape[0], part)
    values = columns[column or holdout.PROBE_SET].astype(np.str_)
    return np.where(values == "", part, values)


def figures(session: Session, artifact: Artifact, options: Row, plain: Row) -> list[Row]:
    """The rows of one artifact: several for recognition and for samples, else the one it says of itself."""
    if artifact.kind == "rbm-pairs" and options["gallery"]:
        from herdcli.evaluation import gallery

        return gallery.rows(artifact.value, session.map)
    if artifact.kind in ("samples", "dataset"):
        from herdcli.cli.eval import samples as compare_samples

        return compare_samples.figures(session, artifact, options, plain)
    return [plain]
