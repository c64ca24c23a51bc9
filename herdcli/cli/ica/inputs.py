"""What `herd ica` learns from: rows of a data set, mixed if they are sources, whitened; and what the user is told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Artifact, Dataset, preparation
from herdcli.artifacts.wording import grouped
from herdcli.cli.frame import streamed
from herdcli.cli.frame.columns import warn_of_weights, without_absent
from herdcli.cli.ica import on_disk
from herdcli.errors import BadUsage, DataError
from herdcli.ica import summing, whitening
from herdcli.ica.whitening import Method, Whitened, Whitening
from herdcli.numerics.blocks import Moments
from herdcli.numerics.units import thinned
from herdcli.records import dataclass
from herdcli.rows import mixing
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN

if TYPE_CHECKING:
    from herdcli.artifacts.lazy import Lazy
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.ica.request import Request
    from herdcli.numerics.blocks import Map
    from herdcli.numerics.blocks import Rows as BlockRows


@dataclass(frozen=True)
class Rows:
    """Whitened training rows Z, held-out ones, the whitening, and the known mixing if there is one.

    Z  (n, D) float64; of a large file what reads it block by block.
    """

    Z: Array | BlockRows
    holdout: Array | None
    whitening: Whitening
    mixing: Array | None
    image_shape: Array | None
    feature_names: list[str] | None
    data: History

    @property
    def held(self) -> Array:
        """Z in memory, which every algorithm but ml has."""
        assert isinstance(self.Z, np.ndarray)
        return self.Z

    @property
    def product(self) -> Array | None:
        """(D, S): J @ product is a scaled permutation where the mixing was undone."""
        return None if self.mixing is None else self.whitening.forward @ self.mixing


def read(session: Session, request: Request) -> Rows:
    """The rows of split 0.  Raises DataError for too few."""
    artifact, data = loaded(session, request, left=on_disk.opened(session, request))
    try:
        split = split_of(data, request)
        X, A = mixed(session, data.X, request)
        train = X if (split == TRAIN).all() else _taken(X, split == TRAIN)
        fitted = _whitened(session, train, request)
        Z = _in_blocks(session, train, fitted)
        holdout = _held_out(session, X, split == TEST, fitted)
    except DataError as error:
        error.where = error.where or artifact.name
        raise
    shape = None if request.mix or request.mixing else data.image_shape
    names = None if request.mix else data.feature_names  # columns that were mixed are no longer those of the names
    return Rows(Z, holdout, fitted, A, shape, names, replace(artifact, value=None))  # learning needs the whitened rows alone


def loaded(session: Session, request: Request, left: Artifact | None = None) -> tuple[Artifact, Dataset]:
    """The data set.      left  it is there already, and its rows are in their file."""
    artifact = left or session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label)
    artifact = without_absent(session, artifact)
    data: Dataset = artifact.value
    warn_of_weights(session, data)
    if data.is_sparse:
        raise DataError("/X is sparse; independent components need dense rows", where=artifact.name)
    return artifact, data


def _taken(X: Array | Lazy, rows: Array) -> Array | Lazy:
    return X[rows] if isinstance(X, np.ndarray) else X.taken(rows)


def _in_blocks(session: Session, train: Array | Lazy, fitted: Whitening) -> Array | BlockRows:
    """The rows, whitened: in memory, or as they are read."""
    if not isinstance(train, np.ndarray):
        return Whitened(streamed.FileRows(train), fitted)
    session.require_memory(8 * 2 * len(train) * len(fitted.forward), f"{len(train)} × {len(fitted.forward)} whitened numbers")
    return fitted.apply(train)


def _held_out(session: Session, X: Array | Lazy, test: Array, fitted: Whitening) -> Array | None:
    """Whitened rows (h, D) float32 of split 2, which the model takes along."""
    tell_of_held(session, int(np.count_nonzero(test)))
    return taken_along(X[thinned(test, summing.HELD)], fitted)


def tell_of_held(session: Session, count: int) -> None:
    """Say that not all of so many rows of split 2 stay with the model."""
    if count > summing.HELD:
        session.console.note(f"{grouped(summing.HELD)} of {grouped(count)} rows of split 2, evenly spread, stay with the model")


def taken_along(X: Array, fitted: Whitening) -> Array | None:
    """Held-out rows as the model has them."""
    return fitted.apply(X).astype(np.float32) if len(X) else None


def all_rows(request: Request, given: bool) -> bool:
    """Whether no rows are held out: of rows in time, and of earlier histories, without a split of their own.  given  they have one."""
    return request.split is None and not given and (request.algorithm == "sobi" or preparation.split_rule().by_class)


def split_of(data: Dataset, request: Request) -> Array:
    """The part of each row."""
    if all_rows(request, data.split is not None):
        return np.full(len(data.X), TRAIN, dtype=np.uint8)
    return preparation.split_rows(data, request.split, request.seed)


def mixed(session: Session, X: Array | Lazy, request: Request) -> tuple[Array | Lazy, Array | None]:
    """The rows, mixed where the columns are sources, and the mixing matrix that is known."""
    if request.mix and request.mixing:
        raise BadUsage("--mix creates a mixing matrix, --mixing names an existing one", hint="leave one of them out")
    if request.mix and isinstance(X, np.ndarray):
        kind, b = request.mix
        A = mixing.random(X.shape[1], seed=request.seed) if kind == "random" else mixing.instamix(X.shape[1], b)
        return mixing.mixed(X, A), A
    if not request.mixing:
        return X, None
    given = session.load(request.mixing, "mixing", kinds={"dataset"}).value.X.astype(np.float64)
    if given.shape[0] != X.shape[1]:
        raise DataError(f"the mixing has {given.shape[0]} rows, /X has {X.shape[1]} columns: x = A s", where=request.mixing)
    return X, given


def _whitened(session: Session, X: Array | Lazy, request: Request) -> Whitening:
    """The whitening of the rows; tells of columns that are constant and of directions that were dropped."""
    require_enough(len(X), X.shape[1], request)
    rows_of = X if isinstance(X, np.ndarray) else streamed.FileRows(X)
    fitted = fitted_to(rows_of, request, session.map)
    constant = whitening.constant_columns(rows_of, session.map) if fitted.dropped else np.empty(0)
    tell(session, fitted, constant, request)
    return fitted


def method_of(request: Request) -> Method:
    """How rows are whitened."""
    return request.whiten or ("pca" if request.components else "zca")


def require_enough(rows: int, columns: int, request: Request) -> None:
    """Raise DataError for too few rows."""
    least = request.count or (1 if request.share else columns)
    if rows <= least:
        what = f"{least} components" if request.count else f"{columns} columns"
        raise DataError(f"/X has {rows} training rows for {what}: too few", hint=f"--components {max(1, rows // 2)}, or more rows")


def fitted_to(rows: Array | BlockRows | Moments, request: Request, map: Map = map) -> Whitening:
    """The whitening of rows, or of their moments."""
    method, count, share = method_of(request), request.count, request.share
    if isinstance(rows, Moments):
        return whitening.of_moments(rows, method=method, components=count, share=share, log=request.log)
    return whitening.fit(rows, method=method, components=count, share=share, log=request.log, map=map)


def tell(session: Session, fitted: Whitening, constant: Array, request: Request) -> None:
    """Say which columns are constant and which directions were dropped.  Raises DataError for a centring that cannot do without them."""
    columns, method = fitted.mean.size, method_of(request)
    least = request.count or columns
    if request.share:
        session.console.note(f"{len(fitted.forward)} of {columns} components have {100 * fitted.kept:.3g} % of the variance")
        least = len(fitted.forward)
    if fitted.scale is not None:
        session.console.note("columns have units of very different sizes: each is whitened in units of its standard deviation")
    if len(constant):
        first = f"'{session.column_names[constant[0]]}'" if session.column_names else str(constant[0])
        session.console.note(f"{len(constant)} of {columns} columns are constant (first: column {first})")
    if fitted.dropped and len(fitted.forward) < least:
        session.console.note(f"rows vary in {columns - fitted.dropped} of {columns} directions: {_dropped(fitted.dropped)}")
    if method == "centre" and fitted.dropped:
        raise DataError(f"rows vary in {columns - fitted.dropped} of {columns} directions", hint="--whiten pca drops the others")
    if fitted.method != method:
        session.console.note(f"--whiten {method} needs all directions: {fitted.method} is used instead")


def _dropped(count: int) -> str:
    return "1 component was dropped" if count == 1 else f"{count} components were dropped"
