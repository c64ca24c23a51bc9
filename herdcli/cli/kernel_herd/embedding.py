"""How `herd kernel-herd` comes to the mean embedding of large data: by --embedding, or by default, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts.wording import grouped
from herdcli.cli.frame import exact
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.approximation import Approximation
    from herdcli.quadrature.kernels import Kernel
    from herdcli.quadrature.problems import Group
    from herdcli.quadrature.samples import Samples

TOLD = 1.0  # seconds of all pairs from which on they are told
KEPT, KEPT_VALUES = 100_000, 10_000_000  # rows and values that candidates of a sketch have at most, unless 20 for each atom are more
LANDMARKS, MOST_LANDMARKS = 1000, 4000  # beyond: as many as atoms, within these


def chosen(session: Session, request: Request, kernel: Kernel, groups: list[Group], earlier: Artifact | None) -> Approximation | None:
    """How μ is approximated where that costs less than all pairs; None where all groups are exact."""
    from herdcli.quadrature.targets import Rows

    if earlier is not None:
        return _gone_on_with(request, earlier.value)
    sizes = [(len(group.points), *group.target.X.shape) for group in groups if isinstance(group.target, Rows)]
    return of_sizes(session, request, kernel, sizes)


def of_sizes(session: Session, request: Request, kernel: Kernel, sizes: list[tuple[int, int, int]]) -> Approximation | None:
    """The same of groups with so many candidates, rows and columns."""
    from herdcli.quadrature import approximation, fourier
    from herdcli.quadrature.points import by_moments

    typed = request.embedding is not None
    found = approximation.parse(request.embedding or f"nystrom:{min(max(LANDMARKS, request.count), MOST_LANDMARKS)}")
    if found is None or by_moments(kernel) or (session.exact and not typed):
        return None
    if found.kind == "fourier":
        fourier.amplitude(kernel)
    if found.kind != "sample":
        exact.refuse(session, f"--embedding {found.text()}", hint="--embedding sample:N or exact")
    found = found if typed else replace(found, by_cost=True)
    rows = [size[1] for size in sizes if found.suits(*size)]
    exact_seconds = max((approximation.seconds_of_pairs(*size) for size in sizes), default=0.0)
    if not rows:
        if not typed and exact_seconds > TOLD:
            session.console.detail(f"the mean embedding is made from all pairs of rows, in about {exact_seconds:.0f} s of CPU time")
        return None
    session.ignored("norm", f"with --embedding {found.text()}")
    if not typed:
        what = f"the mean embedding of {grouped(max(rows))} rows is made from {grouped(found.size)} of them"
        own = max(approximation.seconds_of_landmarks(*size, found.size) for size in sizes if found.suits(*size))
        costs = f"about {own:.0f} s of CPU time; --embedding exact takes all pairs, about {exact_seconds:.0f} s"
        session.console.note(f"{what} (--embedding {found.text()}), {costs}")
    return found


def _gone_on_with(request: Request, earlier: Samples) -> Approximation | None:
    """That of the samples that are extended, whose embedding is in their state.  Raises BadUsage where another was asked for."""
    from herdcli.quadrature import approximation

    have = earlier.embedding or "exact"
    if request.embedding not in (None, have):
        raise BadUsage(f"the samples are of --embedding {have}, not of {request.embedding}", hint="repeat their options")
    return approximation.parse(have)


def tell(session: Session, value: Samples) -> None:
    """Say what an approximate embedding may have added, of the group where that is most."""
    from herdcli.quadrature.approximation import parse

    summary, found = value.summary, parse(value.embedding or "exact")
    if found is None or summary is None or summary.embedding_error is None:
        return
    worst = int(summary.embedding_error.argmax())
    name = "" if value.group_names is None else f"{value.group_names[worst]}: "
    figure = f"MMD {summary.mmd[worst]:.4g} to the embedding by {value.embedding}"
    session.console.note(f"{name}{figure}; to that of all rows within {summary.embedding_error[worst]:.2g} of it ({found.guarantee()})")
