"""The inputs of `herd kernel-herd`: rows, target, candidates and earlier samples, combined into a selection problem."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows import label_column, sampler_columns, stein_scores, streamed_rows
from herdcli.cli.frame.rows.column_order import align_matrix
from herdcli.cli.frame.rows.target_files import parse_target, read_rows_and_names, rows_and_names
from herdcli.cli.frame.run import exact_mode
from herdcli.cli.kernel_herd import embedding_choice, sampler_chains
from herdcli.cli.kernel_herd.request import IN_SMALL_BLOCKS
from herdcli.errors import BadUsage, DataError, missing_column_error
from herdcli.quadrature.rules.rule_table import TABLE
from herdcli.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.embeddings.approximation import EmbeddingApproximation
    from herdcli.quadrature.kernels.kernel_functions import Kernel
    from herdcli.quadrature.kernels.stein_kernels import SteinKernel
    from herdcli.quadrature.row_groups import WeightedRows
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.selection_problem import SelectionGroup, SelectionProblem, SelectionSettings
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array

NORM_EXACT, NORM_SAMPLE = 10_000, 2000  # up to NORM_EXACT rows ‖μ‖² is exact by default, else estimated from NORM_SAMPLE


@dataclass(frozen=True)
class SelectionInputs:
    """A selection problem, and for each group the input rows of its candidates (None: the candidates are not input rows).

    problem   None for a shard without groups.
    originals  returns the candidates with these numbers as they were before scaling.
    left_out  columns of a sampler that are not coordinates.
    """

    problem: SelectionProblem | None
    rows: list[Array | None]
    scale: Array
    group_names: list[str] | None
    feature_names: list[str] | None
    history: Artifact | None
    image_shape: Array | None = None  # (2,) if rows are images
    left_out: list[str] = field(default_factory=list)
    originals: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class _InputRows:
    """The rows of INPUT and the names of their columns."""

    rows: WeightedRows
    feature_names: list[str] | None
    artifact: Artifact
    scores: Array | None = None  # (n, d) ∇ log p
    left_out: list[str] = field(default_factory=list)  # columns of a sampler

    @property
    def columns(self) -> int:
        return int(self.rows.X.shape[1])


def read_inputs(session: Session, request: Request) -> SelectionInputs:
    """Return the problem that the options ask for."""
    from herdcli.quadrature import selection_problem
    from herdcli.quadrature.kernels.joint_kernels import MARK
    from herdcli.quadrature.kernels.kernel_parsing import parse_kernel
    from herdcli.quadrature.kernels.stein_kernels import SteinKernel

    parse_kernel(
        request.kernel if request.label_kernel is None else f"{request.kernel}{MARK}{request.label_kernel}"
    )  # report an error in the kernel before rows are read
    data = read_input_rows(session, request) if request.reads_rows else None
    if data is not None and data.rows.group_names is not None and not session.place.unit_numbers(len(data.rows.group_names)):
        return SelectionInputs(None, [], np.ones(data.columns), list(data.rows.group_names), data.feature_names, data.artifact)
    kernel = parse_kernel(_full_kernel_text(request.kernel, request.label, request.label_kernel, data))
    refuse_inexact_kernel(session, kernel)
    earlier = session.load(request.extend, "extended", kinds={"samples"}) if request.extend else None
    if earlier is not None and data is not None:
        data = _match_earlier_columns(session, data, earlier.value)
    target, given = _target_and_candidates(session, request, data)
    scale = _column_scale(session, request.scale, data, target, given)
    if isinstance(kernel, SteinKernel):
        kernel, groups, rows = _stein_groups(kernel, request, data, scale)
    else:
        groups, rows = _scaled_groups(request.count, request.polish, data, target, given, scale)
        kernel = _suitable_kernel(kernel, request, data, target, given, scale)
    if len(groups) > 1 and request.bandwidth == "median" and kernel.text() != parse_kernel(request.kernel).text():
        session.console.note(f"all {len(groups)} groups use one length scale, from the distances of all rows: {kernel.text()}")
    approximate = embedding_choice.choose_embedding(session, request, kernel, groups, earlier)
    chosen = selection_settings(session, request, 0 if approximate else norm_sample_size(request.norm, target, given), approximate)
    if earlier is not None:
        groups = selection_problem.resume_groups(groups, earlier.value, request.rule, kernel.text(), scale, chosen.norm)
    _check_candidate_counts(session, request.rule, request.unique, request.polish, groups)
    names = None if data is None or data.rows.group_names is None else list(data.rows.group_names)
    return SelectionInputs(
        problem=selection_problem.SelectionProblem(kernel, tuple(groups), chosen),
        rows=rows,
        scale=scale,
        group_names=names,
        feature_names=data.feature_names if data is not None else None,
        history=data.artifact if data is not None else None,
        left_out=data.left_out if data is not None else [],
        image_shape=None if data is None else _shape_of_rows(data),
        originals=_original_candidates(data, given, scale),
    )


def _original_candidates(data: _InputRows | None, candidates: Array | None, scale: Array) -> Callable[[Array], Array] | None:
    """Return the function from numbers of candidates (m,) to these in the input's units, bit for bit."""
    if candidates is not None:
        return lambda numbers: np.asarray(candidates[numbers])
    return None if data is None else lambda numbers: data.rows.original(numbers, scale)


def _full_kernel_text(kernel: str, label: str | None, label_kernel: str | None, data: _InputRows | None) -> str:
    """Return the text of the kernel, with the kernel on labels appended if there is one."""
    from herdcli.quadrature.kernels.joint_kernels import MARK, default_label_kernel_text

    if label is None or data is None or MARK in kernel:
        return kernel
    return f"{kernel}{MARK}{label_kernel or default_label_kernel_text(data.rows.X[:, -1])}"


def refuse_inexact_kernel(session: Session, kernel: Kernel) -> None:
    """Raise BadUsage under --exact if the kernel does not support it."""
    from herdcli.quadrature.kernels.kernel_parsing import machine_dependent_part

    part = machine_dependent_part(kernel)
    if part is not None:
        exact_mode.refuse_exact(session, f"--kernel {part.text()}")


def _target_and_candidates(session: Session, request: Request, data: _InputRows | None) -> tuple[Target, Array | None]:
    """Return the target, and the candidates (N, d) if they differ from the target's rows."""
    given = _read_candidates(session, request.candidates, data) if request.candidates and not request.candidate_kind else None
    target = _parse_target(session, request, given, data)
    if request.candidate_kind:
        from herdcli.quadrature.input_preparation import make_candidates

        given = make_candidates(request.candidate_kind, request.candidate_count, target, request.seed)
    elif given is None and data is not None and request.target != "rows":
        given = data.rows.X
    if given is not None and given.shape[1] != target.dimension:
        raise DataError(f"the candidates have {given.shape[1]} columns, but the target has {target.dimension}")
    return target, given


def _read_candidates(session: Session, path: str, data: _InputRows | None) -> Array:
    """Read the candidates of a file, with columns in the order of the rows' columns."""
    X, names = read_rows_and_names(session, path, "candidates")
    if data is None:
        return X
    found: Array = align_matrix(session, X, names, data.feature_names, data.columns, where=path)
    return found


def _parse_target(session: Session, request: Request, candidates: Array | None, data: _InputRows | None) -> Target:
    """Return the target that --distribution names, with the number of columns known from the options and inputs."""
    from herdcli.quadrature.targets import RowTarget

    if request.target == "rows" and data is not None:
        return RowTarget(data.rows.X, data.rows.weights)
    known = data.columns if data is not None else candidates.shape[1] if candidates is not None else 0
    return parse_target(
        session, request.target, request.dimension or known or (request.candidate_count if request.candidate_kind == "cube" else 1)
    )


def _column_scale(
    session: Session, scale: str | tuple[float, ...], data: _InputRows | None, target: Target, candidates: Array | None
) -> Array:
    """Return the divisors (d,) of the columns."""
    return choose_column_scale(
        session, scale, _scale_basis(data, target, candidates), None if data is None else data.feature_names, rows=data is not None
    )


def choose_column_scale(
    session: Session, scale: str | tuple[float, ...], basis: Array, names: list[str] | None, *, rows: bool = True
) -> Array:
    """Return the divisors (d,) of the columns, computed from points (n, d), and warn about a dominant column."""
    from herdcli.quadrature.input_preparation import choose_column_scales, find_dominant_column

    if scale == "none" and rows and (found := find_dominant_column(basis)) is not None:
        name = names[found[0]] if names else f"x{found[0]}"
        session.console.warn(
            f"column '{name}' has {100 * found[1]:.1f} % of the variance, so it dominates all distances "
            f"between rows; --scale std equalizes the columns"
        )
    divisors, constant = choose_column_scales(basis, scale)
    if constant:
        session.console.warn(f"constant columns are not scaled: {', '.join(str(j) for j in constant[:8])}")
    return divisors


def _scale_basis(data: _InputRows | None, target: Target, candidates: Array | None) -> Array:
    """Return the points for scales and bandwidths: the rows, else the candidates, else the corners of the target's box."""
    if data is not None:
        return data.rows.X
    return candidates if candidates is not None else np.stack(target.bounding_box())


def _scaled_groups(
    count: int, polish: bool, data: _InputRows | None, target: Target, candidates: Array | None, scale: Array
) -> tuple[list[SelectionGroup], list[Array | None]]:
    """Return the groups of the problem in scaled columns, and the input rows of their candidates."""
    from herdcli.quadrature import row_groups
    from herdcli.quadrature.targets import RowTarget

    points = None if candidates is None else candidates / scale
    if not isinstance(target, RowTarget) or data is None:
        return [row_groups.make_closed_form_group(target, points, scale, count, polish=polish)], [None]
    return row_groups.make_row_groups(data.rows, points, scale, count, polish=polish)


def _stein_groups(
    kernel: SteinKernel, request: Request, data: _InputRows | None, scale: Array
) -> tuple[Kernel, list[SelectionGroup], list[Array | None]]:
    """Return a Stein kernel with its metric, and the groups of the problem in scaled columns."""
    from herdcli.quadrature import row_groups
    from herdcli.quadrature.kernels.kernel_parsing import choose_length_scales

    if data is None or data.scores is None:
        raise BadUsage("a Stein kernel needs INPUT, rows with their scores")
    groups, rows = row_groups.make_score_groups(data.rows, data.scores, scale, request.count)
    return choose_length_scales(kernel, data.rows.X / scale, request.bandwidth, request.seed), groups, rows


def _suitable_kernel(
    kernel: Kernel, request: Request, data: _InputRows | None, target: Target, candidates: Array | None, scale: Array
) -> Kernel:
    """Return the kernel with its length scale, after checking that it suits all points.  The rows of `data` are already scaled."""
    from herdcli.quadrature.kernels.kernel_functions import require_positive_semidefinite
    from herdcli.quadrature.kernels.kernel_parsing import choose_length_scales

    basis = _scale_basis(data, target, candidates)
    basis = basis if data is not None else basis / scale
    kernel = choose_length_scales(kernel, basis, request.bandwidth, request.seed)
    kernel.check(basis if candidates is None else np.concatenate([basis, candidates / scale]))
    require_positive_semidefinite(kernel, basis)
    return kernel


def selection_settings(
    session: Session, request: Request, norm_rows: int, approximation: EmbeddingApproximation | None
) -> SelectionSettings:
    """Return the settings of the selection: the rule, its options and the approximation of the embedding."""
    from herdcli.quadrature import selection_problem
    from herdcli.quadrature.rules import sequential_rules

    rule = sequential_rules.RuleSettings(request.rule, request.init or "auto", _step_sizes(session, request), request.unique, request.seed)
    return selection_problem.SelectionSettings(rule, request.refine, request.precision, norm_rows, approximation)


def _step_sizes(session: Session, request: Request) -> tuple[float, ...]:
    """Return the step sizes of --step as numbers."""
    if request.rule != "step" or request.rates is None:
        return ()
    kind, _, text = request.rates.partition(":")
    rates: tuple[float, ...]
    if kind == "constant":
        try:
            rates = (float(text),)
        except ValueError:
            raise BadUsage(f"--step '{request.rates}' is not of the form constant:RHO") from None
    else:
        rates = tuple(float(rate) for rate in read_rows_and_names(session, request.rates, "step")[0].ravel())
    if not all(0 <= rate <= 1 for rate in rates):
        raise BadUsage("--step needs step sizes from 0 to 1")
    return rates


def norm_sample_size(text: str | None, target: Target, candidates: Array | None) -> int:
    """Return the number of rows from which ‖μ‖² is estimated; 0 if it is exact."""
    from herdcli.quadrature.targets import RowTarget

    if text is not None:
        return 0 if text == "exact" else int(text.partition(":")[2])
    return NORM_SAMPLE if candidates is not None and isinstance(target, RowTarget) and len(target.X) > NORM_EXACT else 0


def _shape_of_rows(data: _InputRows) -> Array | None:
    """Return the height and width of rows that are images; None if columns were left out or added."""
    shape: Array | None = getattr(data.artifact.value, "image_shape", None)
    return shape if shape is not None and int(np.prod(shape)) == data.columns else None


def read_input_rows(session: Session, request: Request) -> _InputRows:
    """Read INPUT, its weights and its groups."""
    from herdcli.quadrature import row_groups

    artifact = _load_input(
        session, request.source, request.by, request.input_format, request.row_weight, request.label_column, request.has_blocks
    )
    X, names = rows_and_names(artifact)
    weights = getattr(artifact.value, "weight", None)
    group: Array | None = None
    group_names: list[str] | None = None
    if request.row_weight and request.row_weight != "weight":
        X, names, weights = remove_column(X, names, request.row_weight, "--row-weight", artifact.name)
    elif request.row_weight and weights is None:
        raise DataError("has no weights", where=artifact.name)
    if request.by:
        X, names, group, known = _split_groups(artifact, X, names, _group_column(artifact, names, request.by))
        group, group_names = row_groups.number_groups(group, known)
    if request.label:
        X, names = label_column.append_labels(artifact, X, names, request.label_column)
    X, names, left_out = sampler_columns.coordinate_columns(X, names)
    further = getattr(artifact.value, "columns", None) or {}
    left_out += [name for name in further if sampler_columns.is_sampler_column(name) and name != request.by]
    sampler_chains.note_divergent_draws(session, further)
    S: Array | None = None
    if request.uses_scores:
        more = ", or name one with --by or --label"
        X, names, S = stein_scores.read_scores(session, request.scores, X, names, artifact.name, named_by=more)
        weights = None  # a sampler's rows are candidates, they do not define the distribution
    try:
        return _InputRows(row_groups.normalise_row_weights(X, weights, group, group_names), names, artifact, S, left_out)
    except DataError as error:
        error.where = artifact.name
        raise


def _group_column(artifact: Artifact, names: list[str] | None, by: str) -> str:
    """Return the column that --by names; for `chain`, the column of chain numbers under the name that the sampler gave it."""
    there = [*(names or []), *(getattr(artifact.value, "columns", None) or {})]
    return sampler_columns.chain_column(there) or by if by == "chain" and getattr(artifact.value, "y", None) is None else by


def _split_groups(
    artifact: Artifact, X: Array, names: list[str] | None, by: str
) -> tuple[Array, list[str] | None, Array, list[str] | None]:
    """Return the matrix (n, d), the group of each row (n,), and the names of the groups if they are classes."""
    value = artifact.value
    y, further = getattr(value, "y", None), getattr(value, "columns", None) or {}
    # In text, the column of that name was read as the labels; sealed files and files left on disk have their own labels.
    own = by == "y" or not (artifact.sealed or by in (names or ()))
    if y is not None and own:
        return X, names, y, getattr(value, "class_names", None)
    if by in further:
        return X, names, further[by], None
    X, names, group = remove_column(X, names, by, "--by", artifact.name)
    return X, names, group, None


def _load_input(
    session: Session,
    source: str,
    by: str | None,
    input_format: str | None,
    row_weight: str | None,
    label_column: str | None,
    has_blocks: bool,
) -> Artifact:
    """Load INPUT into memory."""
    if sampler_chains.has_separate_chain_files(source, by):
        return sampler_chains.load_chains(session, source, input_format)
    if by == "chain" and source != "-":
        artifact = session.load(source, "data", kinds={"dataset", "samples"}, input_format=input_format, also=sampler_columns.OWN)
        if sampler_columns.chain_column([*(rows_and_names(artifact)[1] or []), *(getattr(artifact.value, "columns", None) or {})]):
            return artifact  # else the labels of the rows may number the chains
    label = None if by in (None, "y") else by
    also = [name for name in sampler_columns.STATISTICS if name not in (label, row_weight, label_column)]
    with streamed_rows.suggest_streaming(IN_SMALL_BLOCKS, lambda: has_blocks):
        return session.load(source, "data", kinds={"dataset", "samples"}, input_format=input_format, label=label, also=also)


def remove_column(X: Array, names: list[str] | None, column: str, option: str, where: str) -> tuple[Array, list[str] | None, Array]:
    """Return the matrix (n, d) without a named column, and that column (n,).  Raises BadUsage if it does not exist."""
    if not names or column not in names:
        raise missing_column_error(option, column, names or [], where)
    j = names.index(column)
    if X.shape[1] == 1:
        raise DataError(f"has no column other than '{column}'", where=where)
    return np.delete(X, j, axis=1), [name for name in names if name != column], X[:, j].copy()


def _match_earlier_columns(session: Session, data: _InputRows, earlier: Samples) -> _InputRows:
    """Return INPUT with its columns in the order of the earlier samples' columns."""
    names, rows = earlier.feature_names, data.rows
    X = align_matrix(session, rows.X, data.feature_names, names, earlier.x.shape[1], where=data.artifact.name)
    if X is rows.X:
        return data
    S = data.scores
    if S is not None:
        S = align_matrix(session, S, data.feature_names, names, earlier.x.shape[1], where=data.artifact.name)
    return replace(data, rows=replace(rows, X=X), feature_names=names, scores=S)


def _check_candidate_counts(session: Session, rule: str, unique: bool, polish: bool, groups: list[SelectionGroup]) -> None:
    """Warn if a rule that may repeat candidates has fewer than atoms.  Raises DataError for rules that may not."""
    fewest = min(groups, key=lambda group: len(group.points) - group.count)
    entry = TABLE[rule]
    if "candidates" not in entry.reads and fewest.count > len(fewest.points):
        raise DataError(f"{fewest.count} atoms were requested, but there are only {len(fewest.points)} rows", hint="give a smaller -m")
    if not (entry.repeats and "unique" in entry.reads) or unique or polish:
        return
    if fewest.count > len(fewest.points):
        found = f"there are only {len(fewest.points)} candidates for {fewest.count} atoms, so some are chosen more than once"
        session.console.warn(f"{found} (-m {len(fewest.points)} --unique chooses each candidate once)")
