"""The choice of how `herd kernel-herd` computes the mean embedding of large data, by --embedding or by default, and its messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts.message_numbers import group_digits
from herdcli.cli.frame.run import exact_mode
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
    from herdcli.quadrature.kernels.kernel_functions import Kernel
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.selection_problem import SelectionGroup

TOLD = 1.0  # CPU seconds for all pairs above which the time is printed
KEPT, KEPT_VALUES = 100_000, 10_000_000  # maximum rows and values of a sketch's candidates, unless 20 per atom are more
LANDMARKS, MOST_LANDMARKS = 1000, 4000  # default number of landmarks: as many as atoms, within these limits


def choose_embedding(
    session: Session, request: Request, kernel: Kernel, groups: list[SelectionGroup], earlier: Artifact | None
) -> EmbeddingApproximation | None:
    """Return the approximation of the mean embedding μ if it costs less than all pairs; None if all groups are exact."""
    from herdcli.quadrature.targets import RowTarget

    if earlier is not None:
        return _embedding_of_extended_samples(request.embedding, earlier.value)
    sizes = [(len(group.points), *group.target.X.shape) for group in groups if isinstance(group.target, RowTarget)]
    return choose_embedding_for_sizes(session, request.embedding, request.count, kernel, sizes)


def choose_embedding_for_sizes(
    session: Session, embedding: str | None, count: int, kernel: Kernel, sizes: list[tuple[int, int, int]]
) -> EmbeddingApproximation | None:
    """Return the approximation of μ for groups with these numbers of candidates, rows and columns; None if all are exact."""
    from herdcli.quadrature.embeddings import approximation, random_fourier
    from herdcli.quadrature.kernels.point_sums import depends_on_moments

    typed = embedding is not None
    found = approximation.parse_embedding_approximation(embedding or f"nystrom:{min(max(LANDMARKS, count), MOST_LANDMARKS)}")
    if found is None or depends_on_moments(kernel) or (session.exact and not typed):
        return None
    if found.kind == "fourier":
        random_fourier.kernel_amplitude(kernel)
    if found.kind != "sample":
        exact_mode.refuse_exact(session, f"--embedding {found.text()}", hint="use --embedding sample:N or exact")
    found = found if typed else replace(found, by_cost=True)
    rows = [size[1] for size in sizes if found.is_suitable(*size)]
    exact_seconds = max((approximation.estimate_exact_seconds(*size) for size in sizes), default=0.0)
    if not rows:
        if not typed and exact_seconds > TOLD:
            session.console.detail(f"the mean embedding is computed from all pairs of rows, in about {exact_seconds:.0f} s of CPU time")
        return None
    session.warn_of_ignored_option("norm", f"with --embedding {found.text()}")
    if not typed:
        what = f"the mean embedding of {group_digits(max(rows))} rows is approximated from {group_digits(found.size)} of them"
        own = max(approximation.estimate_nystrom_seconds(*size, found.size) for size in sizes if found.is_suitable(*size))
        costs = f"about {own:.0f} s of CPU time; --embedding exact uses all pairs, about {exact_seconds:.0f} s"
        session.console.note(f"{what} (--embedding {found.text()}), {costs}")
    return found


def _embedding_of_extended_samples(embedding: str | None, earlier: Samples) -> EmbeddingApproximation | None:
    """Return the embedding of the samples that are extended.  Raises BadUsage if --embedding asks for another."""
    from herdcli.quadrature.embeddings import approximation

    have = earlier.embedding or "exact"
    if embedding not in (None, have):
        raise BadUsage(
            f"the samples were made with --embedding {have}, not with {embedding}",
            hint="--extend needs the options with which the samples were made",
        )
    return approximation.parse_embedding_approximation(have)


def note_embedding_error(session: Session, value: Samples) -> None:
    """Report the largest possible error of an approximate embedding, for the group where it is largest."""
    from herdcli.quadrature.embeddings.approximation import parse_embedding_approximation

    summary, found = value.summary, parse_embedding_approximation(value.embedding or "exact")
    if found is None or summary is None or summary.embedding_error is None:
        return
    worst = int(summary.embedding_error.argmax())
    name = "" if value.group_names is None else f"{value.group_names[worst]}: "
    figure = f"MMD {summary.mmd[worst]:.4g} with the approximation {value.embedding}"
    session.console.note(f"{name}{figure}; with all rows it differs by at most {summary.embedding_error[worst]:.2g} ({found.bound_kind()})")
