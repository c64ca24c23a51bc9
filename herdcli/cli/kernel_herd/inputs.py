"""What `herd kernel-herd` reads: rows, target, candidates and earlier samples, as a problem."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame import exact, labels, stein, streamed
from herdcli.cli.frame.columns import matrix_by_name
from herdcli.cli.frame.targets import closed_target, matrix, table
from herdcli.cli.kernel_herd import chains, embedding
from herdcli.cli.kernel_herd.request import IN_SMALL_BLOCKS
from herdcli.errors import BadUsage, DataError
from herdcli.quadrature.rule_table import TABLE
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session
    from herdcli.cli.kernel_herd.request import Request
    from herdcli.quadrature.approximation import Approximation
    from herdcli.quadrature.grouping import Weighted
    from herdcli.quadrature.kernels import Kernel
    from herdcli.quadrature.problems import Group, Problem, Settings
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.stein import Stein
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array

NORM_EXACT, NORM_SAMPLE = 10_000, 2000  # rows up to which ‖μ‖² is exact by default, and drawn beyond


@dataclass(frozen=True)
class Inputs:
    """A problem, and for each of its groups the input's rows of its candidates (None: they are no rows of the input).

    problem  None for a shard without groups, which needs none.   left_out  columns of a sampler that are no coordinates.
    """

    problem: Problem | None
    rows: list[Array | None]
    scale: Array
    group_names: list[str] | None
    feature_names: list[str] | None
    history: Artifact | None
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Input:
    """Rows of INPUT, and the names of their columns."""

    rows: Weighted
    feature_names: list[str] | None
    artifact: Artifact
    scores: Array | None = None  # (n, d) ∇ log p
    left_out: list[str] = field(default_factory=list)  # columns of a sampler

    @property
    def columns(self) -> int:
        return int(self.rows.X.shape[1])


def read(session: Session, request: Request) -> Inputs:
    """The problem that the options ask for."""
    from herdcli.quadrature import problems
    from herdcli.quadrature.joint import MARK
    from herdcli.quadrature.kernel_names import parse
    from herdcli.quadrature.stein import Stein

    request.refuse()
    request.warn_of_ignored(session)
    parse(request.kernel if request.label_kernel is None else f"{request.kernel}{MARK}{request.label_kernel}")  # before rows are read
    data = input_rows(session, request) if request.reads_rows else None
    if data is not None and data.rows.group_names is not None and not session.place.of(len(data.rows.group_names)):
        return Inputs(None, [], np.ones(data.columns), list(data.rows.group_names), data.feature_names, data.artifact)
    kernel = parse(_kernel_text(request, data))
    refuse_inexact(session, request, kernel)
    earlier = session.load(request.extend, "extended", kinds={"samples"}) if request.extend else None
    if earlier is not None and data is not None:
        data = _in_order_of(session, data, earlier.value)
    target, given = _target_and_candidates(session, request, data)
    scale = _scale(session, request, data, target, given)
    if isinstance(kernel, Stein):
        kernel, groups, rows = _of_scores(kernel, request, data, scale)
    else:
        groups, rows = _groups(request, data, target, given, scale)
        kernel = _suited(kernel, request, data, target, given, scale)
    if len(groups) > 1 and request.bandwidth == "median" and kernel.text() != parse(request.kernel).text():
        session.console.note(f"one length scale for all {len(groups)} groups: {kernel.text()}, by the distances of all rows")
    approximate = embedding.chosen(session, request, kernel, groups, earlier)
    chosen = settings(session, request, 0 if approximate else norm_rows(request.norm, target, given), approximate)
    if earlier is not None:
        groups = problems.continued(groups, earlier.value, request.rule, kernel.text(), scale, chosen.norm)
    _tell_repeats(session, request, groups)
    names = None if data is None or data.rows.group_names is None else list(data.rows.group_names)
    return Inputs(
        problem=problems.Problem(kernel, tuple(groups), chosen),
        rows=rows,
        scale=scale,
        group_names=names,
        feature_names=data.feature_names if data is not None else None,
        history=data.artifact if data is not None else None,
        left_out=data.left_out if data is not None else [],
    )


def _kernel_text(request: Request, data: _Input | None) -> str:
    """The kernel's text, that on labels behind it."""
    from herdcli.quadrature.joint import MARK, default_label

    if request.label is None or data is None or MARK in request.kernel:
        return request.kernel
    return f"{request.kernel}{MARK}{request.label_kernel or default_label(data.rows.X[:, -1])}"


def refuse_inexact(session: Session, request: Request, kernel: Kernel) -> None:
    """Raise BadUsage for what --exact is not for."""
    from herdcli.quadrature.kernel_names import inexact

    refused = {"trace-projected": request.trace_projected, "polish": request.polish, "target": request.target != "rows"}
    exact.refuse_options(session, refused)
    part = inexact(kernel)
    if part is not None:
        exact.refuse(session, f"--kernel {part.text()}")
    if request.simd is not None:
        exact.refuse(session, f"HERD_SIMD={request.simd}, which rounds otherwise")


def _target_and_candidates(session: Session, request: Request, data: _Input | None) -> tuple[Target, Array | None]:
    """The target, and the candidates (N, d) where they are others than the target's rows."""
    given = _candidates(session, request.candidates, data) if request.candidates and not request.made else None
    target = _target(session, request, given, data)
    if request.made:
        from herdcli.quadrature.preparation import candidates

        given = candidates(request.made, request.made_count, target, request.seed)
    elif given is None and data is not None and request.target != "rows":
        given = data.rows.X
    if given is not None and given.shape[1] != target.dimension:
        raise DataError(f"candidates have {given.shape[1]} columns, the target has {target.dimension}")
    return target, given


def _candidates(session: Session, path: str, data: _Input | None) -> Array:
    """The candidates of a file, their columns in the order of the rows'."""
    X, names = table(session, path, "candidates")
    if data is None:
        return X
    found: Array = matrix_by_name(session, X, names, data.feature_names, data.columns, where=path)
    return found


def _target(session: Session, request: Request, given: Array | None, data: _Input | None) -> Target:
    """The target of the option's text, in as many columns as are known of."""
    from herdcli.quadrature.targets import Rows

    if request.target == "rows" and data is not None:
        return Rows(data.rows.X, data.rows.weights)
    known = data.columns if data is not None else given.shape[1] if given is not None else 0
    return closed_target(session, request.target, request.dimension or known or (request.made_count if request.made == "cube" else 1))


def _scale(session: Session, request: Request, data: _Input | None, target: Target, given: Array | None) -> Array:
    """(d,) what columns are divided by."""
    return scale_of(session, request, _basis(data, target, given), None if data is None else data.feature_names, rows=data is not None)


def scale_of(session: Session, request: Request, basis: Array, names: list[str] | None, *, rows: bool = True) -> Array:
    """(d,) what columns are divided by, told from points (n, d)."""
    from herdcli.quadrature.preparation import column_scales, dominant

    if request.scale == "none" and rows and (found := dominant(basis)) is not None:
        name = names[found[0]] if names else f"x{found[0]}"
        session.console.warn(
            f"column '{name}' has {100 * found[1]:.1f} % of the variance and decides alone which rows are alike: --scale std"
        )
    scale, constant = column_scales(basis, request.scale)
    if constant:
        session.console.warn(f"constant columns are left as they are: {', '.join(str(j) for j in constant[:8])}")
    return scale


def _basis(data: _Input | None, target: Target, given: Array | None) -> Array:
    """Points that scales and bandwidths are told from: the rows, else the candidates, else the corners of the target's box."""
    if data is not None:
        return data.rows.X
    return given if given is not None else np.stack(target.box())


def _groups(
    request: Request, data: _Input | None, target: Target, given: Array | None, scale: Array
) -> tuple[list[Group], list[Array | None]]:
    """The groups of the problem in scaled columns, and the input's rows of their candidates."""
    from herdcli.quadrature import grouping
    from herdcli.quadrature.targets import Rows

    points = None if given is None else given / scale
    if not isinstance(target, Rows) or data is None:
        return [grouping.of_closed_form(target, points, scale, request.count, polish=request.polish)], [None]
    return grouping.of_rows(data.rows, points, scale, request.count, polish=request.polish)


def _of_scores(kernel: Stein, request: Request, data: _Input | None, scale: Array) -> tuple[Kernel, list[Group], list[Array | None]]:
    """A Stein kernel with its metric, and the groups of the problem, in scaled columns."""
    from herdcli.quadrature import grouping
    from herdcli.quadrature.kernel_names import choose

    if data is None or data.scores is None:
        raise BadUsage("a Stein kernel needs rows")
    groups, rows = grouping.of_scores(data.rows, data.scores, scale, request.count)
    return choose(kernel, data.rows.X / scale, request.bandwidth, request.seed), groups, rows


def _suited(kernel: Kernel, request: Request, data: _Input | None, target: Target, given: Array | None, scale: Array) -> Kernel:
    """The kernel, its length scale chosen, once it is known to suit all points.  Rows are scaled already."""
    from herdcli.quadrature.kernel_names import choose
    from herdcli.quadrature.kernels import check_definite

    basis = _basis(data, target, given)
    basis = basis if data is not None else basis / scale
    kernel = choose(kernel, basis, request.bandwidth, request.seed)
    kernel.check(basis if given is None else np.concatenate([basis, given / scale]))
    check_definite(kernel, basis)
    return kernel


def settings(session: Session, request: Request, norm: int, approximate: Approximation | None) -> Settings:
    """The rule and what goes with it."""
    from herdcli.quadrature import problems, rules

    rule = rules.Settings(request.rule, request.init or "auto", _rates(session, request), request.unique, request.seed)
    return problems.Settings(rule, request.refine, request.precision, norm, approximate)


def _rates(session: Session, request: Request) -> tuple[float, ...]:
    """Step sizes as numbers."""
    if request.rule != "step" or request.rates is None:
        return ()
    kind, _, text = request.rates.partition(":")
    rates: tuple[float, ...]
    if kind == "constant":
        try:
            rates = (float(text),)
        except ValueError:
            raise BadUsage(f"--step '{request.rates}' is not of the form constant:ρ") from None
    else:
        rates = tuple(float(rate) for rate in table(session, request.rates, "step")[0].ravel())
    if not all(0 <= rate <= 1 for rate in rates):
        raise BadUsage("step sizes lie in [0, 1]")
    return rates


def norm_rows(text: str | None, target: Target, given: Array | None) -> int:
    """Rows that ‖μ‖² is estimated from, 0 for none."""
    from herdcli.quadrature.targets import Rows

    if text is not None:
        return 0 if text == "exact" else int(text.partition(":")[2])
    return NORM_SAMPLE if given is not None and isinstance(target, Rows) and len(target.X) > NORM_EXACT else 0


def input_rows(session: Session, request: Request) -> _Input:
    """INPUT, its weights and groups."""
    from herdcli.quadrature import grouping

    artifact = _loaded(session, request)
    X, names = matrix(artifact)
    weights = getattr(artifact.value, "weight", None)
    group: Array | None = None
    group_names: list[str] | None = None
    if request.row_weight and request.row_weight != "weight":
        X, names, weights = without(X, names, request.row_weight, "--row-weight", artifact.name)
    elif request.row_weight and weights is None:
        raise DataError("has no weights", where=artifact.name)
    if request.by:
        X, names, group, known = _grouped(artifact, X, names, _own_name(artifact, names, request.by))
        group, group_names = grouping.labels(group, known)
    if request.label:
        X, names = labels.last(artifact, X, names, request.label_column)
    X, names, left_out = chains.coordinates(X, names)
    further = getattr(artifact.value, "columns", None) or {}
    left_out += [name for name in further if chains.of_sampler(name) and name != request.by]
    chains.tell_divergent(session, further)
    S: Array | None = None
    if request.of_scores:
        X, names, S = stein.scores(session, request.scores, X, names, artifact.name)
        weights = None  # a sampler's rows are candidates, not a law
    try:
        return _Input(grouping.weighted(X, weights, group, group_names), names, artifact, S, left_out)
    except DataError as error:
        error.where = artifact.name
        raise


def _own_name(artifact: Artifact, names: list[str] | None, by: str) -> str:
    """The column that --by names; of chains the one that numbers them, whatever the program that wrote it calls it."""
    there = [*(names or []), *(getattr(artifact.value, "columns", None) or {})]
    return chains.chain_column(there) or by if by == "chain" and getattr(artifact.value, "y", None) is None else by


def _grouped(artifact: Artifact, X: Array, names: list[str] | None, by: str) -> tuple[Array, list[str] | None, Array, list[str] | None]:
    """The matrix (n, d), the groups (n,) that the rows are in, and their names if they are classes."""
    value = artifact.value
    y, further = getattr(value, "y", None), getattr(value, "columns", None) or {}
    # A text's column of that name was read as its labels; files that are sealed, or stay on disk, have theirs already.
    own = by == "y" or not (artifact.sealed or by in (names or ()))
    if y is not None and own:
        return X, names, y, getattr(value, "class_names", None)
    if by in further:
        return X, names, further[by], None
    X, names, group = without(X, names, by, "--by", artifact.name)
    return X, names, group, None


def _loaded(session: Session, request: Request) -> Artifact:
    """INPUT in memory."""
    if chains.separate_files(request):
        return chains.load(session, request)
    if request.by == "chain" and request.source != "-":
        artifact = session.load(request.source, "data", kinds={"dataset", "samples"}, input_format=request.input_format, also=chains.OWN)
        if chains.chain_column([*(matrix(artifact)[1] or []), *(getattr(artifact.value, "columns", None) or {})]):
            return artifact  # else the labels of its rows may be chains
    label = None if request.by in (None, "y") else request.by
    also = [name for name in chains.STATISTICS if name not in (label, request.row_weight, request.label_column)]
    with streamed.way_out(IN_SMALL_BLOCKS, lambda: request.has_blocks):
        return session.load(request.source, "data", kinds={"dataset", "samples"}, input_format=request.input_format, label=label, also=also)


def without(X: Array, names: list[str] | None, column: str, option: str, where: str) -> tuple[Array, list[str] | None, Array]:
    """The matrix (n, d) without a named column, and that column (n,).  Raises BadUsage where there is none."""
    if not names or column not in names:
        listed = ", ".join((names or ["none named"])[:12])
        raise BadUsage(f"{option} {column}: there is no such column", where=where, hint=f"columns: {listed}")
    j = names.index(column)
    if X.shape[1] == 1:
        raise DataError(f"has no column besides '{column}'", where=where)
    return np.delete(X, j, axis=1), [name for name in names if name != column], X[:, j].copy()


def _in_order_of(session: Session, data: _Input, earlier: Samples) -> _Input:
    """INPUT with its columns in the order of earlier samples'."""
    names, rows = earlier.feature_names, data.rows
    X = matrix_by_name(session, rows.X, data.feature_names, names, earlier.x.shape[1], where=data.artifact.name)
    if X is rows.X:
        return data
    S = data.scores
    if S is not None:
        S = matrix_by_name(session, S, data.feature_names, names, earlier.x.shape[1], where=data.artifact.name)
    return replace(data, rows=replace(rows, X=X), feature_names=names, scores=S)


def _tell_repeats(session: Session, request: Request, groups: list[Group]) -> None:
    """Warn where there are fewer candidates than atoms of a rule that may choose one again.  Raises DataError for one that may not."""
    fewest = min(groups, key=lambda group: len(group.points) - group.count)
    rule = TABLE[request.rule]
    if "candidates" not in rule.reads and fewest.count > len(fewest.points):
        raise DataError(f"{fewest.count} atoms were asked for, but there are only {len(fewest.points)} rows", hint="ask for fewer")
    if not (rule.repeats and "unique" in rule.reads) or request.unique or request.polish:
        return
    if fewest.count > len(fewest.points):
        found = f"{fewest.count} atoms of {len(fewest.points)} candidates: some come more than once"
        session.console.warn(f"{found}; --unique takes each once at most (-m {len(fewest.points)})")
