"""`herd kernel-herd --block-rows N` on a pipe: a sketch sums up the blocks, and atoms are chosen from a sample of the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Artifact
from herdcli.artifacts.message_numbers import group_digits, shorten_decimals
from herdcli.artifacts.rows import block_reader
from herdcli.cli.frame.rows import sampler_columns
from herdcli.cli.frame.run import exact_mode
from herdcli.cli.kernel_herd import block_tree, inputs, results
from herdcli.cli.kernel_herd.embedding_choice import KEPT, KEPT_VALUES, LANDMARKS, MOST_LANDMARKS
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.schema import require_valid_weights

if TYPE_CHECKING:
    from herdcli.artifacts.byte_sources import ByteSource
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.kernels.kernel_functions import Kernel
    from herdcli.quadrature.samples import Samples
    from herdcli.schema import Array


def uses_stream(source: str, block_rows: int | None, target: str) -> bool:
    """Return whether INPUT is read block by block without storing it: a pipe with --block-rows."""
    return source == "-" and block_rows is not None and target == "rows"


def select_from_stream(session: Session, request: Request) -> None:
    """Choose atoms from all rows of a pipe and save them; input that cannot be read in blocks is copied to a file first."""
    with block_reader.open_blocks("-", input_format=request.input_format, note=session.console.note, roles=session.column_roles()) as (
        source,
        data,
    ):
        if data is None:
            _load_whole_stream(session, request, source)
            return
        session.inputs["data"] = Artifact("stream", None, [], hashlib.sha256(source.head).hexdigest(), source.name, len(source.head), False)
        try:
            value = _select_atoms(session, request, source, data)
        except DataError as error:
            error.where = error.where or source.name
            raise
    results.note_result(session, value, request.count)
    results.save_samples(session, value, f"{len(value.index)} atoms, {shorten_decimals(value.kernel)}", None)


def _load_whole_stream(session: Session, request: Request, source: ByteSource) -> None:
    with source.file_path() as path:
        try:
            block_tree.select_from_own_blocks(session, replace(request, source=path))
        except HerdError as error:
            if error.where and error.where.startswith(path):
                error.where = source.name + error.where[len(path) :]
            raise


def _landmark_count(session: Session, embedding: str | None, count: int) -> int:
    """Return the number of landmarks.  Raises BadUsage for options that do not work with rows that are read once."""
    from herdcli.quadrature.embeddings.approximation import parse_embedding_approximation

    session.warn_of_ignored_option("block_atoms", "with a pipe, which needs no merging")
    session.warn_of_ignored_option("precision", "with a pipe, which always uses float64")
    if session.missing is not None:
        raise BadUsage("--missing does not work with --block-rows and a pipe", hint="fill in missing values first, with herd convert")
    found = parse_embedding_approximation(embedding or f"nystrom:{min(max(LANDMARKS, count), MOST_LANDMARKS)}")
    if found is None or found.kind != "nystrom":
        raise BadUsage(f"--embedding {embedding} needs all rows in memory", hint="use --embedding nystrom:R, or no --block-rows")
    exact_mode.refuse_exact(session, "--block-rows and a pipe")
    return found.size


def _select_atoms(session: Session, request: Request, source: ByteSource, data: Iterator[Dataset]) -> Samples:
    """Return the atoms chosen from all rows."""
    from herdcli.quadrature import result_assembly, selection
    from herdcli.quadrature.embeddings import stream_sketch
    from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
    from herdcli.quadrature.selection_problem import SelectionProblem

    size, rows = _landmark_count(session, request.embedding, request.count), StreamBlocks(data, request)
    X, weights = rows.first_block()
    scale, kernel = _scale_and_kernel(session, request, X)
    rows.scale = scale
    sketch = stream_sketch.make_landmark_sums(kernel, X / scale, weights, size, request.seed)
    kept = max(20 * request.count, min(KEPT, KEPT_VALUES // X.shape[1]))
    whole = stream_sketch.StreamSketching(sketch, rows, kept, request.seed, session.map)
    seen = session.run(whole, label="reading", memory="the sketch of the rows")
    rows.drain()
    session.inputs["data"] = replace(session.inputs["data"], sha256=source.sha256, size=source.size)
    group, numbers = stream_sketch.make_group_from_stream(sketch, seen, request.count, session.map)
    problem = SelectionProblem(
        kernel, (group,), inputs.selection_settings(session, request, 0, EmbeddingApproximation("nystrom", len(sketch.landmarks)))
    )
    state = session.run_preparation(selection.AtomSelection(problem, session.map), label="herding")
    value = result_assembly.assemble_samples(
        problem,
        state,
        [numbers],
        kind=request.weights,
        projected=request.trace_projected,
        scale=scale,
        feature_names=rows.names,
        keep_state=False,
    )
    return result_assembly.extend_to_more_rows(value, seen.rows, float(seen.spread[1] / seen.spread[0]))


def _scale_and_kernel(session: Session, request: Request, X: Array) -> tuple[Array, Kernel]:
    """Return the column scales and the kernel with its length scale, computed from the first rows (n, d)."""
    from herdcli.quadrature.input_preparation import choose_column_scales
    from herdcli.quadrature.kernels.kernel_functions import require_positive_semidefinite
    from herdcli.quadrature.kernels.kernel_parsing import choose_length_scales, parse_kernel

    scale, _ = choose_column_scales(X, request.scale)
    kernel = choose_length_scales(parse_kernel(request.kernel), X / scale, request.bandwidth, request.seed)
    require_positive_semidefinite(kernel, X / scale)
    session.console.note(
        f"length scales, column scales and landmarks are computed from the first {group_digits(len(X))} rows: {kernel.text()}"
    )
    return scale, kernel


class StreamBlocks:
    """Rows of a sequence of data sets, regrouped into blocks of --block-rows, with a digest of the blocks read."""

    def __init__(self, data: Iterator[Dataset], request: Request) -> None:
        self.data, self.size, self.weight = data, int(request.block_rows or 0), request.row_weight
        self.scale: Array = np.ones(1)
        self.names: list[str] | None = None
        self._at, self._digest = 0, b"\0" * 32
        self._waiting: list[tuple[Array, Array]] = []
        self._first: tuple[Array, Array] | None = None

    def first_block(self) -> tuple[Array, Array]:
        """Return rows (n, d) and weights (n,) of the first block, which `block` returns again.  Raises DataError for a single row."""
        self._first = self._next_block()
        if self._first is None or len(self._first[0]) < 2:
            raise DataError("has only one row, but at least two are needed")
        return self._first

    def block(self, step: int, proof: Array) -> tuple[Array, Array] | None:
        """See `quadrature.stream_sketch.StreamSource`."""
        passed = self._at < step
        while self._at < step and self._read_and_digest_block() is not None:
            pass
        if passed and not np.array_equal(self.proof(), proof):
            raise DataError(
                "the rows differ from those that were read before the checkpoint was saved", hint="start again without --resume"
            )
        found = self._read_and_digest_block()
        return None if found is None else (found[0] / self.scale, found[1])

    def proof(self) -> Array:
        """Return the digest (32,) uint8 of all blocks read so far."""
        return np.frombuffer(self._digest, dtype=np.uint8).copy()

    def drain(self) -> None:
        """Read the remaining rows, so that the digest covers all bytes."""
        while self._read_and_digest_block() is not None:
            pass

    def _read_and_digest_block(self) -> tuple[Array, Array] | None:
        found, self._first = self._first or self._next_block(), None
        if found is not None:
            self._digest = hashlib.sha256(self._digest + found[0].tobytes() + found[1].tobytes()).digest()
            self._at += 1
        return found

    def _next_block(self) -> tuple[Array, Array] | None:
        """Return the next --block-rows rows, fewer at the end, None after it."""
        have = sum(len(X) for X, _ in self._waiting)
        while have < self.size and (data := next(self.data, None)) is not None:
            self._waiting.append(self._rows_and_weights(data))
            have += len(self._waiting[-1][0])
        if not have:
            return None
        X, weights = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting = [(X[self.size :], weights[self.size :])] if have > self.size else []
        return X[: self.size], weights[: self.size]

    def _rows_and_weights(self, data: Dataset) -> tuple[Array, Array]:
        """Return rows in float64 and their weights, ones if there are none."""
        X, names, _ = sampler_columns.coordinate_columns(np.asarray(data.X, dtype=np.float64), data.feature_names, (self.weight,))
        weights = data.weight
        if self.weight and self.weight != "weight":
            X, names, weights = inputs.remove_column(X, names, self.weight, "--row-weight", "stdin")
        elif self.weight and weights is None:
            raise DataError("has no weights")
        self.names = names
        own = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
        require_valid_weights(own, some_positive=False)
        return X, own
