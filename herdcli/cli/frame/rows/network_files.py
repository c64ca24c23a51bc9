"""Networks and texts that belong to them, from files, stdin and compressed wrappings, and on their way to -o."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from herdcli.artifacts import Artifact
from herdcli.artifacts.formats import format_detection
from herdcli.artifacts.sealed import seal_header
from herdcli.cli.frame.options.common_options import NETWORK_FORMATS
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.column_order import match_variables
from herdcli.dialect import current_dialect
from herdcli.errors import BadUsage, DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts.byte_sources import Source
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.output.outputs import History
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.network import Network

T = TypeVar("T")
TEXT_FORMATS = NETWORK_FORMATS[1:]
LOSSY = ("uai", "fg", "dsl")  # formats that have no place for some names
PACKED = (".gz", ".bz2", ".xz", ".zst")
XML_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
LATIN = ("iso-8859-1", "latin-1", "latin1", "iso-8859-15", "windows-1252", "cp1252")


def load_network(session: Session, path: str, input_format: str | None, missing_rows: str | None = None) -> Artifact:
    """A network as text, with the names beside it, or an artifact.  Raises DataError with line and token.

    missing_rows  "uniform": rows of NaN become uniform distributions.
    """
    with session.opened(path) as source:
        form = input_format or format_detection.detect_network_format(source.head)
        found = (
            _load_text_network(session, source, form, "network", missing_rows)
            if form in TEXT_FORMATS
            else _load_sealed(session, source, path)
        )
    return _add_names(session, found, path) if form in LOSSY else found


def load_model(session: Session, path: str, role: str, kinds: Collection[str] | None, *, raw: bool = False) -> Artifact:
    """An artifact of one of these kinds, or a network as text.  raw: rows as they are stored, with gaps."""
    with session.opened(path) as source:
        form = format_detection.detect_network_format(source.head)
        if form == "fg" and ".fg" not in Path(source.name).suffixes:
            form = None  # a first line of one number is too little to tell where there may be anything
        if form in TEXT_FORMATS:
            found = _load_text_network(session, source, form, role)
        elif source.regular:
            return session.load(path, role, kinds=kinds, missing=raw, as_stored=raw)
        else:
            return _load_from_stream(session, source, role, kinds, raw=raw)
    return _add_names(session, found, path) if form in LOSSY else found


def _load_text_network(session: Session, source: Source, form: str, role: str, missing_rows: str | None = None) -> Artifact:
    from herdcli.markov.formats import network_formats as formats

    notes: list[str] = []
    found = parse_source(
        session, source, role, lambda text: formats.read_network(text, form, missing_rows=missing_rows, notes=notes), "network", form
    )
    for note in notes:
        session.console.note(f"{source.name}: {note}")
    if (told := formats.conditional_violation(found.value)) is not None:
        session.console.warn(f"{source.name}: is marked BAYES, but {told}: its factors are multiplied as in a MARKOV file")
        found = replace(found, value=replace(found.value, directed=False))
    session.remember_features(found)
    return found


def _add_names(session: Session, artifact: Artifact, path: str) -> Artifact:
    """A network with the names that lie beside its file, where there are any."""
    from herdcli.markov.formats.names_file import read_names

    beside = names_file_path(path)
    if path == "-" or not Path(beside).is_file():
        return artifact
    network = load_parsed_text(session, beside, "names", lambda text: read_names(text, artifact.value))
    session.console.note(f"{artifact.name}: names of variables and states are those of {Path(beside).name}")
    named = replace(artifact, value=network)
    session.remember_features(named)
    return named


def names_file_path(path: str) -> str:
    """Where the names of a network lie, or go, that its file cannot hold: NAME.names.json beside NAME.uai and NAME.uai.gz."""
    given = Path(path)
    if given.suffix.lower() in PACKED:
        given = given.with_suffix("")
    return str(given.with_suffix(".names.json"))


def load_matching(session: Session, path: str, names: list[str] | None, count: int) -> Network:
    """A network whose variables are matched by name with those of another one."""
    from herdcli.markov.model.network import reorder_variables

    found = load_network(session, path, None)
    order = match_variables(found, found.value.names, found.value.count, names, count)
    network: Network = found.value if order is None else reorder_variables(found.value, order)
    return network


def state_encoding(network: Network) -> Recoding:
    """The names of states, by variable, that columns of text have; of variables whose states are named by their places alone none."""
    import numpy as np

    from herdcli.artifacts.recoding import Recoding

    parts = [] if network.states is None else np.split(np.array(network.states), np.cumsum(network.cardinality)[:-1])
    levels = {network.name(i): tuple(part.tolist()) for i, part in enumerate(parts)}
    return Recoding({name: own for name, own in levels.items() if own != tuple(map(str, range(len(own))))}, codes=True)


def load_parsed_text(session: Session, path: str, role: str, parse: Callable[[str], T], *, empty: bool = False) -> T:
    """What `parse` makes of the text of a file; errors name the file.  empty  a file without a byte has a text too."""
    with session.opened(path, empty=empty) as source:
        found: T = parse_source(session, source, role, parse, "text").value
    return found


def parse_source(
    session: Session, source: Source, role: str, parse: Callable[[str], object], kind: str, form: str | None = None
) -> Artifact:
    """What `parse` makes of an open text, remembered among the inputs; errors name the file.  form  of a network."""
    with source.reader() as stream:
        raw = stream.read()
    try:
        value = parse(raw.decode(_text_encoding(raw, form)))
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text (byte {error.start})", where=source.name) from None
    except HerdError as error:
        error.where = source.name
        raise
    found = Artifact(kind, value, [], source.sha256, source.name, len(raw), False)
    session.inputs[role] = replace(found, value=None)
    return found


def _text_encoding(raw: bytes, form: str | None) -> str:
    """That of a text: as XML declares it, Latin-1 for programs that knew nothing else, else UTF-8, as which text under --encoding comes."""
    if current_dialect().encoding is not None:
        return "utf-8-sig"
    if form in ("xmlbif", "xdsl"):
        found = XML_ENCODING.match(raw)
        if found is not None and (name := found[1].decode().lower()) in LATIN:
            return name
    if form in ("net", "dsl"):
        try:
            raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8-sig"


def _load_sealed(session: Session, source: Source, path: str) -> Artifact:
    """A sealed network; a stream is drained first and keeps its name.  Raises DataError for what is no artifact."""
    if not source.head.startswith(
        (seal_header.MAGIC, format_detection.HDF5_MAGIC, b"PAR1", b"PK\x03\x04")
    ) and not format_detection.find_hdf5_signature(source.head):
        formats = ", ".join(f".{name}" for name in TEXT_FORMATS)
        raise DataError("is not a network in a format that herd reads", where=source.name,
                        hint=f"network formats are {formats} and .h5; herd fit-mrf learns a network from rows")  # fmt: skip
    if source.regular:
        return session.load(path, "network", kinds={"network"})
    return _load_from_stream(session, source, "network", {"network"})


def _load_from_stream(session: Session, source: Source, role: str, kinds: Collection[str] | None, *, raw: bool = False) -> Artifact:
    """An artifact from a stream, which keeps its name."""
    with source.file() as drained:
        try:
            found = session.load(drained, role, kinds=kinds, missing=raw, as_stored=raw)
        except HerdError as error:
            error.where = source.name
            raise
    session.inputs[role] = replace(session.inputs[role], name=source.name)
    return replace(found, name=source.name)


def output_format(session: Session, wanted: str | None, choices: tuple[str, ...]) -> str:
    """The format of -o: as asked, by its suffix, else hdf5.  Raises BadUsage for a suffix that is none."""
    suffix = Path(session.output).suffix.lower().removeprefix(".")
    suffix = format_detection.NETWORK_SUFFIXES.get(suffix, suffix)
    if wanted or suffix in choices:
        return wanted or suffix
    try:
        format_detection.output_format_from_suffix(session.output)
    except BadUsage as error:
        error.hint = f"known formats: {', '.join('.h5' if name == 'hdf5' else f'.{name}' for name in choices)}"
        raise
    return "hdf5"


def check_output(session: Session, kind: str, form: str) -> None:
    """Refuse an output that cannot be made, before any work is done."""
    if session.shard is not None:
        outputs.check_artifact(session, kind, None if form == "hdf5" else form)
    elif form == "hdf5":
        outputs.check_artifact(session, kind)
    else:
        outputs.check_text(session)


def write_network(session: Session, value: Network, summary: str, form: str, history: History = None) -> None:
    """A network as an artifact, or as text with the names beside it that the format cannot hold."""
    from herdcli.markov.formats import names_file
    from herdcli.markov.formats import network_formats as formats

    if form == "hdf5":
        outputs.write_artifact(session, value, summary, history=history)
        return
    text, labels = formats.write_network(value, form), formats.FORMATS[form].labels
    if names_file.loses_names(value, labels):
        _write_names(session, names_file.write_names(value, labels), form)
    elif labels != "all" and session.output != "-" and Path(names_file_path(session.output)).exists():
        session.console.warn(f"{Path(names_file_path(session.output)).name} exists already, so its names will be read with this network")
    outputs.write_text_result(session, text, summary, form)


def _write_names(session: Session, content: str, form: str) -> None:
    """The names beside -o; on standard output they are lost, with a warning."""
    if session.output == "-":
        session.console.warn(
            f"{form} cannot hold all names of variables and states, so they are lost; with -o FILE they go into a second file"
        )
        return
    path = names_file_path(session.output)
    outputs.write_side_file(session, path, lambda target: outputs.write_text(target, content), binary=False)
    session.console.note(f"{form} cannot hold all names of variables and states: they are in {Path(path).name}, which is read with it")
