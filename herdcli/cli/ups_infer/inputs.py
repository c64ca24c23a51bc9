"""The inputs of `herd ups-infer`: a network, evidence, observed marginals and likelihoods, and sets of variables to clamp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows.network_files import load_parsed_text
from herdcli.cli.ups_infer.request import CLAMPS, REGIONS
from herdcli.errors import BadUsage, DataError, NegativeResult

MOST_NOTES = 3  # maximum number of notes about numbers that could be state names

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array


def condition_network(session: Session, full: Network, request: Request) -> tuple[Network, dict[int, int]]:
    """Return the network given evidence, observed marginals and likelihoods, and the evidence."""
    from herdcli.markov.model import network

    evidence = read_evidence(session, full, request)
    stored = {} if request.ignore_observed else full.stored_marginals()
    given = dict(_parse_assignments(full, request.observe, "--observe"))
    for i, p in given.items():
        network.validate_marginal(full, i, p)
    if both := sorted(evidence.keys() & (stored | given).keys()):
        raise BadUsage(
            f"{full.name(both[0])} has evidence and an observed marginal", hint="leave the stored marginals out: --ignore-observed"
        )
    weighed = network.with_likelihoods(full, dict(_parse_assignments(full, request.likelihood, "--soft-evidence")))
    return network.condition_network(network.with_observed_marginals(weighed, stored | given), evidence), evidence


def read_evidence(session: Session, full: Network, request: Request) -> dict[int, int]:
    """Return a mapping of variables to states from --evidence: from its file and from arguments NAME=STATE."""
    from herdcli.markov.formats import evidence as formats

    notes: list[str] = []
    found: dict[int, int] = {}
    if request.evidence:
        assert isinstance(request.evidence, str)
        found = load_parsed_text(
            session, request.evidence, "evidence", lambda text: formats.read_evidence(text, full, notes), allow_empty=True
        )
    for text in request.evidence_states:
        try:
            i, state = formats.parse_assignment(text, full, notes)
        except DataError as error:
            error.where = "--evidence"
            raise
        if found.setdefault(i, state) != state:
            first, second = (full.state_name(i, each) for each in (found[i], state))
            raise BadUsage(f"--evidence gives {full.name(i)} two states, {first} and {second}")
    for note in notes[:MOST_NOTES]:
        session.console.note(f"evidence: {note}")
    if len(notes) > MOST_NOTES:
        session.console.note(f"evidence: {len(notes) - MOST_NOTES} more such notes are not shown")
    return found


@contextmanager
def add_evidence_to_hint(full: Network, evidence: dict[int, int]) -> Iterator[None]:
    """Add the evidence to the hint of an error that says that no state is possible, because a single factor need not be the cause."""
    try:
        yield
    except NegativeResult as error:
        if evidence and error.hint is None:
            few = [f"{full.name(i)}={full.state_name(i, state)}" for i, state in list(evidence.items())[:8]]
            more = "" if len(evidence) <= 8 else f" and {len(evidence) - 8} more"
            error.hint = f"the evidence is {', '.join(few)}{more}"
        raise


def read_clamp_sets(session: Session, full: Network, clamp: str) -> list[list[int]] | None:
    """Read the sets of variables in the file of --clamp; None if it does not name a file."""
    from herdcli.markov.formats import results

    if clamp in CLAMPS:
        return None
    return load_parsed_text(session, clamp, "clamp", lambda text: results.read_clamp_sets(text, full))


def read_regions(session: Session, full: Network, text: str) -> list[list[int]] | None:
    """Read the regions in the file of --regions; None if it does not name a file."""
    from herdcli.markov.model.graphs import structure_selection

    kind, _, size = text.partition(":")
    if text in REGIONS:
        return None
    if kind == "cliques":
        if not size.isdecimal() or int(size) < 2:
            raise BadUsage(f"--regions {text} needs a number of variables, 2 or more", hint="use --regions cliques:4")
        return None
    scopes = load_parsed_text(
        session, text, "regions", lambda text: structure_selection.read_scopes(text, full.listed_names, full.listed_count)
    )
    return [list(scope) for scope in scopes]


def _parse_assignments(network: Network, texts: tuple[str, ...], option: str) -> Iterator[tuple[int, Array]]:
    """Yield (variable, values) for texts such as x3=0.2,0.8."""
    from herdcli.markov.formats.evidence import find_variable
    from herdcli.markov.model.variable_names import strip_quotes

    seen: set[int] = set()
    for text in texts:
        name, equals, values = text.rpartition("=")
        try:
            numbers = np.array([float(value) for value in values.split(",")])
        except ValueError:
            raise BadUsage(f"{option} '{text}' is not of the form NAME=NUMBER,NUMBER…") from None
        i = find_variable(network, strip_quotes(name.strip()))
        if len(numbers) != network.cardinality[i] or not equals:
            raise DataError(f"{option} '{text}' has {len(numbers)} values, but {network.name(i)} has {network.cardinality[i]} states")
        if i in seen:
            raise BadUsage(f"{option} names {network.name(i)} twice", hint=f"give each variable only one {option}")
        seen.add(i)
        yield i, numbers
