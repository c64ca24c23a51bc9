"""The network that `herd network` works on: read from a file, or generated from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.rows.network_files import load_network
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.network.request import Request
    from herdcli.markov.model.network import Network


def read_or_generate_network(session: Session, request: Request) -> tuple[Network, Artifact | None]:
    """Return the network from a file with its artifact, or one generated from the seed with None."""
    if request.structure == "convert":
        found = load_network(session, request.source, request.input_format)
        return found.value, found
    if request.structure == "unroll":
        return _unroll_template(session, request.source, request.input_format, request.steps)
    if request.structure == "from-hmm":
        from herdcli.cli.em import hmm_network

        return hmm_network.hmm_network_from_files(session, request.evidence, request.source)
    from herdcli.markov.model import random_networks

    needed = random_networks.generation_bytes(
        request.structure, rows=request.rows, columns=request.columns, nodes=request.nodes, degree=request.degree
    )
    session.require_memory(needed, "the network")
    network = random_networks.generate_random_network(
        request.structure,
        rows=request.rows,
        columns=request.columns,
        nodes=request.nodes,
        degree=request.degree,
        sigma_w=request.sigma_w,
        sigma_b=request.sigma_b,
        observe=request.observe,
        sigma_alpha=request.sigma_alpha,
        seed=request.seed,
    )
    return network, None


def _unroll_template(session: Session, source: str, input_format: str | None, steps: int) -> tuple[Network, Artifact]:
    """Return the network of --steps slices of a template."""
    from herdcli.markov.model import slice_templates

    found = load_network(session, source, input_format)
    try:
        template = slice_templates.parse_two_slice_network(found.value)
        session.require_memory(slice_templates.unrolled_bytes(template, steps), f"{steps} slices")
        return slice_templates.unroll_template(template, steps), found
    except DataError as error:
        error.where = error.where or found.name
        raise
