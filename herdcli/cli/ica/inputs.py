"""The inputs of `herd ica`: rows of a data set, mixed if they are sources, and whitened; and messages about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Artifact, Dataset
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.rows.column_order import drop_zero_weights, warn_of_unused_weights
from herdcli.cli.ica import on_disk
from herdcli.errors import DataError
from herdcli.ica import block_moments, whitening
from herdcli.ica.whitening import Method, Whitening, whitened_rows
from herdcli.numerics.block_statistics import RowMoments
from herdcli.numerics.block_units import select_evenly_spaced
from herdcli.records import dataclass
from herdcli.rows import mixing_matrices
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN

if TYPE_CHECKING:
    from herdcli.algorithm import Map
    from herdcli.artifacts.rows.lazy_matrix import LazyMatrix
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ica.request import Request
    from herdcli.numerics.block_statistics import RowReader as BlockRows


@dataclass(frozen=True)
class WhitenedRows:
    """Whitened training rows Z, held-out rows, the whitening, and the known mixing if there is one.

    Z  (n, D) float64; for a large file an object that reads it block by block.
    """

    Z: Array | BlockRows
    holdout: Array | None
    whitening: Whitening
    mixing: Array | None
    image_shape: Array | None
    feature_names: list[str] | None
    data: HistorySource

    @property
    def whitened_array(self) -> Array:
        """Z (n, D) in memory; only the algorithm ml can work without it."""
        assert isinstance(self.Z, np.ndarray)
        return self.Z

    @property
    def whitened_mixing(self) -> Array | None:
        """The product (D, S) of whitening and mixing; J @ whitened_mixing is a scaled permutation if J undoes the mixing."""
        return None if self.mixing is None else self.whitening.forward @ self.mixing


def read_rows(session: Session, request: Request) -> WhitenedRows:
    """Read, split and whiten the rows.  Raises DataError if there are too few."""
    artifact, data = load_data(
        session, request.source, request.input_format, request.label, opened=on_disk.open_dataset_in_blocks(session, request)
    )
    try:
        split = assign_splits(data, request)
        X, A = mix_sources(session, data.X, request)
        train = X if (split == TRAIN).all() else _take_rows(X, split == TRAIN)
        fitted = _fit_whitening(session, train, request)
        Z = _whitened_rows(session, train, fitted)
        holdout = _whitened_heldout_rows(session, X, split == TEST, fitted)
    except DataError as error:
        error.where = error.where or artifact.name
        raise
    shape = None if request.mix or request.mixing else data.image_shape
    names = None if request.mix else data.feature_names  # mixed columns no longer have the names of the sources
    return WhitenedRows(Z, holdout, fitted, A, shape, names, replace(artifact, value=None))  # learning needs only the whitened rows


def load_data(
    session: Session, source: str, input_format: str | None, label: str | None, opened: Artifact | None = None
) -> tuple[Artifact, Dataset]:
    """Load the data set.  opened  the data set if it is already open and its rows stay in their file.

    Raises DataError for sparse data.
    """
    artifact = opened or session.load(source, "data", kinds={"dataset"}, input_format=input_format, label=label)
    artifact = drop_zero_weights(session, artifact)
    data: Dataset = artifact.value
    warn_of_unused_weights(session, data)
    if data.is_sparse:
        raise DataError("/X is sparse, but herd ica needs dense rows", where=artifact.name)
    return artifact, data


def _take_rows(X: Array | LazyMatrix, rows: Array) -> Array | LazyMatrix:
    return X[rows] if isinstance(X, np.ndarray) else X.select_rows(rows)


def _whitened_rows(session: Session, train: Array | LazyMatrix, fitted: Whitening) -> Array | BlockRows:
    """Return the whitened rows, in memory or as an object that whitens them when they are read."""
    if not isinstance(train, np.ndarray):
        return whitened_rows(streamed_rows.matrix_rows(train), fitted)
    session.require_memory(8 * 2 * len(train) * len(fitted.forward), f"{len(train)} × {len(fitted.forward)} whitened numbers")
    return fitted.apply(train)


def _whitened_heldout_rows(session: Session, X: Array | LazyMatrix, test: Array, fitted: Whitening) -> Array | None:
    """Return whitened rows (h, D) float32 of split 2, which are stored in the model."""
    note_omitted_heldout_rows(session, int(np.count_nonzero(test)))
    return heldout_rows_for_model(X[select_evenly_spaced(test, block_moments.HELD)], fitted)


def note_omitted_heldout_rows(session: Session, count: int) -> None:
    """Print a note if only a part of `count` rows of split 2 is stored in the model."""
    if count > block_moments.HELD:
        session.console.note(
            f"{group_digits(block_moments.HELD)} of {group_digits(count)} test rows, evenly spaced, are stored in the model for herd eval"
        )


def heldout_rows_for_model(X: Array, fitted: Whitening) -> Array | None:
    """Return the held-out rows in the form in which the model stores them: whitened float32, or None if there are none."""
    return fitted.apply(X).astype(np.float32) if len(X) else None


def has_no_heldout_rows(split: str | None, algorithm: str, has_split: bool) -> bool:
    """Return whether no rows are held out: time series, and old records without a split.  has_split  the data have a split."""
    return split is None and not has_split and (algorithm == "sobi" or dataset_preparation.current_split_rule().by_class)


def assign_splits(data: Dataset, request: Request) -> Array:
    """Return the split of each row."""
    if has_no_heldout_rows(request.split, request.algorithm, data.split is not None):
        return np.full(len(data.X), TRAIN, dtype=np.uint8)
    return dataset_preparation.assign_splits(data, request.split, request.seed)


def mix_sources(session: Session, X: Array | LazyMatrix, request: Request) -> tuple[Array | LazyMatrix, Array | None]:
    """Return the rows, mixed if --mix says that the columns are sources, and the known mixing matrix."""
    if request.mix and isinstance(X, np.ndarray):
        kind, b = request.mix
        A = (
            mixing_matrices.random_mixing_matrix(X.shape[1], seed=request.seed)
            if kind == "random"
            else mixing_matrices.instamix_matrix(X.shape[1], b)
        )
        return mixing_matrices.mix_sources(X, A), A
    if not request.mixing:
        return X, None
    given = session.load(request.mixing, "mixing", kinds={"dataset"}).value.X.astype(np.float64)
    if given.shape[0] != X.shape[1]:
        raise DataError(f"the mixing matrix A has {given.shape[0]} rows, but /X has {X.shape[1]} columns (x = A s)", where=request.mixing)
    return X, given


def _fit_whitening(session: Session, X: Array | LazyMatrix, request: Request) -> Whitening:
    """Fit the whitening and report constant columns and dropped directions."""
    require_enough_rows(len(X), X.shape[1], request.component_count, request.variance_fraction)
    rows_of = X if isinstance(X, np.ndarray) else streamed_rows.matrix_rows(X)
    fitted = fit_whitening(rows_of, request, session.map)
    constant = whitening.find_constant_columns(rows_of, session.map) if fitted.dropped else np.empty(0)
    report_and_check_whitening(
        session, fitted, constant, request.whiten, request.components, request.component_count, request.variance_fraction
    )
    return fitted


def whitening_method(whiten: Method | None, components: int | float | None) -> Method:
    """Return the whitening method."""
    return whiten or ("pca" if components else "zca")


def require_enough_rows(rows: int, columns: int, component_count: int | None, variance_fraction: float | None) -> None:
    """Raise DataError if there are too few rows."""
    least = component_count or (1 if variance_fraction else columns)
    if rows <= least:
        what = f"{least} components" if component_count else f"{columns} columns"
        raise DataError(f"/X has only {rows} training rows, too few for {what}", hint=f"use --components {max(1, rows // 2)}, or more rows")


def fit_whitening(rows: Array | BlockRows | RowMoments, request: Request, map: Map = map) -> Whitening:
    """Return the whitening of rows, or of their moments."""
    method, count, share = whitening_method(request.whiten, request.components), request.component_count, request.variance_fraction
    if isinstance(rows, RowMoments):
        return whitening.whitening_from_moments(rows, method=method, components=count, share=share, log=request.log)
    return whitening.fit_whitening(rows, method=method, components=count, share=share, log=request.log, map=map)


def report_and_check_whitening(
    session: Session,
    fitted: Whitening,
    constant: Array,
    whiten: Method | None,
    components: int | float | None,
    component_count: int | None,
    variance_fraction: float | None,
) -> None:
    """Report constant columns and dropped directions.  Raises DataError if directions are dropped and --whiten centre needs them all."""
    columns, method = fitted.mean.size, whitening_method(whiten, components)
    least = component_count or columns
    if variance_fraction:
        session.console.note(
            f"{len(fitted.forward)} of {columns} components are kept; they have {100 * fitted.kept_variance_fraction:.3g} % of the variance"
        )
        least = len(fitted.forward)
    if fitted.scale is not None:
        session.console.note("the columns have very different variances, so each is divided by its standard deviation before whitening")
    if len(constant):
        first = f"'{session.column_names[constant[0]]}'" if session.column_names else str(constant[0])
        session.console.note(f"{len(constant)} of {columns} columns are constant (first: column {first})")
    if fitted.dropped and len(fitted.forward) < least:
        session.console.note(f"rows vary in {columns - fitted.dropped} of {columns} directions: {_dropped_directions_text(fitted.dropped)}")
    if method == "centre" and fitted.dropped:
        raise DataError(
            f"rows vary only in {columns - fitted.dropped} of {columns} directions, but --whiten centre needs all",
            hint="use --whiten pca, which drops the others",
        )
    if fitted.method != method:
        session.console.note(f"--whiten {method} needs rows that vary in all directions, so {fitted.method} is used instead")


def _dropped_directions_text(count: int) -> str:
    return "1 component was dropped" if count == 1 else f"{count} components were dropped"
