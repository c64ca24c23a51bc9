"""Networks and their accompanying texts: read from files, stdin and compressed files, and written to -o."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from herdcli.artifacts import Artifact, atomic_output
from herdcli.artifacts.formats import format_detection
from herdcli.artifacts.sealed import seal_header
from herdcli.cli.frame.options.common_options import NETWORK_FORMATS
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.column_order import match_variables
from herdcli.dialect import current_dialect
from herdcli.errors import BadUsage, CannotCreate, DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts.byte_sources import ByteSource
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.network import Network

T = TypeVar("T")
TEXT_FORMATS = NETWORK_FORMATS[1:]
LOSSY = ("uai", "fg", "dsl")  # formats that cannot hold some names
PACKED = (".gz", ".bz2", ".xz", ".zst")
XML_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
LATIN = ("iso-8859-1", "latin-1", "latin1", "iso-8859-15", "windows-1252", "cp1252")


def load_network(session: Session, path: str, input_format: str | None) -> Artifact:
    """Return a network from text, with the names in the file next to it, or from an artifact.  Raises DataError with line and token."""
    with session.open_text_input(path) as source:
        form = input_format or format_detection.detect_network_format(source.head)
        found = (
            _load_text_network(session, source, form, "network") if form in TEXT_FORMATS else _load_sealed_network(session, source, path)
        )
    return _add_names_from_file(session, found, path) if form in LOSSY else found


def load_network_text(session: Session, path: str) -> Artifact | None:
    """Return the network of a text file; None for files of other contents."""
    with session.open_text_input(path) as source:
        form = format_detection.detect_network_format(source.head)
        if form not in TEXT_FORMATS or (form == "fg" and ".fg" not in Path(source.name).suffixes):
            return None
        found = _load_text_network(session, source, form, "data")
    return _add_names_from_file(session, found, path) if form in LOSSY else found


def load_model(session: Session, path: str, role: str, kinds: Collection[str] | None, *, raw: bool = False) -> Artifact:
    """Return an artifact of one of these kinds, or a network from text.  raw: rows as they are stored, with missing values and profiles."""
    with session.open_text_input(path) as source:
        form = format_detection.detect_network_format(source.head)
        if form == "fg" and ".fg" not in Path(source.name).suffixes:
            form = None  # a single number in the first line does not identify the format of an arbitrary file
        if form in TEXT_FORMATS:
            found = _load_text_network(session, source, form, role)
        elif source.regular:
            return session.load(path, role, kinds=kinds, missing=raw, as_stored=raw, profiles=raw)
        else:
            return _load_from_stream(session, source, role, kinds, raw=raw)
    return _add_names_from_file(session, found, path) if form in LOSSY else found


def _load_text_network(session: Session, source: ByteSource, form: str, role: str) -> Artifact:
    """Return a network from text; with --missing-rows uniform, rows of NaN become uniform distributions."""
    from herdcli.markov.formats import network_formats as formats

    notes: list[str] = []
    missing_rows: str | None = getattr(session.request, "missing_rows", None)
    found = parse_text_source(
        session, source, role, lambda text: formats.read_network(text, form, missing_rows=missing_rows, notes=notes), "network", form
    )
    for note in notes:
        session.console.note(f"{source.name}: {note}")
    if (told := formats.find_conditional_violation(found.value)) is not None:
        session.console.warn(f"{source.name}: is marked BAYES, but {told}: its factors are multiplied as in a MARKOV file")
        found = replace(found, value=replace(found.value, directed=False))
    session.remember_features(found)
    return found


def _add_names_from_file(session: Session, artifact: Artifact, path: str) -> Artifact:
    """Return a network with the names from the file next to its own, if there is one."""
    from herdcli.markov.formats.names_file import read_names

    beside = names_file_path(path)
    if path == "-" or not Path(beside).is_file():
        return artifact
    network = load_parsed_text(session, beside, "names", lambda text: read_names(text, artifact.value))
    session.console.note(f"{artifact.name}: names of variables and states are read from {Path(beside).name}")
    named = replace(artifact, value=network)
    session.remember_features(named)
    return named


def names_file_path(path: str) -> str:
    """Return the path for the names of a network that its own file cannot hold: NAME.names.json next to NAME.uai and NAME.uai.gz."""
    given = Path(path)
    if given.suffix.lower() in PACKED:
        given = given.with_suffix("")
    return str(given.with_suffix(".names.json"))


def load_matching_network(session: Session, path: str, names: list[str] | None, count: int) -> Network:
    """Return a network whose variables are matched by name with those of another one."""
    from herdcli.markov.model.network import reorder_variables

    found = load_network(session, path, None)
    order = match_variables(found, found.value.names, found.value.count, names, count)
    network: Network = found.value if order is None else reorder_variables(found.value, order)
    return network


def state_encoding(network: Network) -> Recoding:
    """Return the state names by variable, for reading columns of text; variables whose states are only numbered are left out."""
    import numpy as np

    from herdcli.artifacts.recoding import Recoding

    parts = [] if network.states is None else np.split(np.array(network.states), np.cumsum(network.cardinality)[:-1])
    levels = {network.name(i): tuple(part.tolist()) for i, part in enumerate(parts[: network.listed_count])}
    return Recoding(
        {name: own for name, own in levels.items() if own != tuple(map(str, range(len(own))))}, codes=True, columns=tuple(levels)
    )


def load_parsed_text(session: Session, path: str, role: str, parse: Callable[[str], T], *, allow_empty: bool = False) -> T:
    """Return the result of `parse` for the text of a file; errors name the file.  empty: whether an empty file is allowed."""
    with session.open_text_input(path, allow_empty=allow_empty) as source:
        found: T = parse_text_source(session, source, role, parse, "text").value
    return found


def parse_text_source(
    session: Session, source: ByteSource, role: str, parse: Callable[[str], object], kind: str, form: str | None = None
) -> Artifact:
    """Return the result of `parse` for an open text, and add it to the inputs; errors name the file.  form: of a network."""
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
    """Return the encoding of a text.

    This is the one that XML declares, Latin-1 for older programs, else UTF-8, to which text is already converted if --encoding is given.
    """
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


def _load_sealed_network(session: Session, source: ByteSource, path: str) -> Artifact:
    """Return a sealed network; a stream is first copied to a file and keeps its name.  Raises DataError for anything but an artifact."""
    if not source.head.startswith(
        (seal_header.MAGIC, format_detection.HDF5_MAGIC, b"PAR1", b"PK\x03\x04")
    ) and not format_detection.find_hdf5_signature(source.head):
        formats = ", ".join(f".{name}" for name in TEXT_FORMATS)
        raise DataError("is not a network in a format that herd reads", where=source.name,
                        hint=f"network formats are {formats} and .h5; herd fit-mrf learns a network from rows")  # fmt: skip
    if source.regular:
        return session.load(path, "network", kinds={"network"})
    return _load_from_stream(session, source, "network", {"network"})


def _load_from_stream(session: Session, source: ByteSource, role: str, kinds: Collection[str] | None, *, raw: bool = False) -> Artifact:
    """Return an artifact from a stream, under the stream's name."""
    with source.file_path() as drained:
        try:
            found = session.load(drained, role, kinds=kinds, missing=raw, as_stored=raw, profiles=raw)
        except HerdError as error:
            error.where = source.name
            raise
    session.inputs[role] = replace(session.inputs[role], name=source.name)
    return replace(found, name=source.name)


def output_format(session: Session, requested: str | None, choices: tuple[str, ...]) -> str:
    """Return the format for -o: the requested one, else by the suffix, else hdf5.  Raises BadUsage for an unknown suffix."""
    suffix = Path(session.output).suffix.lower().removeprefix(".")
    suffix = format_detection.NETWORK_SUFFIXES.get(suffix, suffix)
    if requested or suffix in choices:
        return requested or suffix
    try:
        format_detection.output_format_from_suffix(session.output)
    except BadUsage as error:
        error.hint = f"known formats: {', '.join('.h5' if name == 'hdf5' else f'.{name}' for name in choices)}"
        raise
    return "hdf5"


def check_output(session: Session, kind: str, form: str) -> None:
    """Raise an error before any work is done if an output cannot be written."""
    if session.shard is not None:
        outputs.check_artifact_output(session, kind, None if form == "hdf5" else form)
    elif form == "hdf5":
        outputs.check_artifact_output(session, kind)
    else:
        outputs.check_text_output(session)
        if kind == "network" and form in LOSSY and not session.dry_run:
            _check_names_file(session)


def _check_names_file(session: Session) -> None:
    """Raise CannotCreate if the file next to -o, which may get names, is not a file of names.  The user did not name it."""
    from herdcli.markov.formats import names_file

    path = names_file_path(session.output)
    if atomic_output.goes_to_stream(session.output) or not os.path.lexists(path):
        return
    try:
        known = Path(path).is_file() and names_file.is_names_file(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = False
    if not known:
        hint = f"move it away, or choose another name than {session.output}"
        raise CannotCreate("is not a file of names, but names of the network may have to be written there", where=path, hint=hint)


def write_network(session: Session, value: Network, summary: str, form: str, history: HistorySource = None) -> None:
    """Write a network as an artifact, or as text with a second file for the names that the format cannot hold."""
    from herdcli.markov.formats import names_file
    from herdcli.markov.formats import network_formats as formats

    if form == "hdf5":
        outputs.write_artifact(session, value, summary, history=history)
        return
    text, labels = formats.write_network(value, form), formats.FORMATS[form].labels
    if value.auxiliary:
        more = f"{value.auxiliary} auxiliary variables that divide large noisy-max tables"
        session.console.note(f"the file also has {more}; herd reads them but does not list them")
    if names_file.would_lose_names(value, labels):
        _write_names(session, names_file.write_names(value, labels), form)
    elif labels != "all" and not atomic_output.goes_to_stream(session.output) and Path(names_file_path(session.output)).exists():
        session.console.warn(f"{Path(names_file_path(session.output)).name} exists already, so its names will be read with this network")
    outputs.write_text_result(session, text, summary, form)


def _write_names(session: Session, content: str, form: str) -> None:
    """Write the names next to -o; on standard output and devices they are lost, with a warning."""
    if atomic_output.goes_to_stream(session.output):
        session.console.warn(
            f"{form} cannot hold all names of variables and states, so they are lost; with -o FILE they go into a second file"
        )
        return
    _check_names_file(session)
    path = names_file_path(session.output)
    outputs.write_side_file(session, path, lambda target: outputs.write_text(target, content), binary=False)
    session.console.note(f"{form} cannot hold all names of variables and states: they are in {Path(path).name}, which is read with it")
