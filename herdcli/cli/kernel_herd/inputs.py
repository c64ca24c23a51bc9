"""What `herd kernel-herd` reads: rows, target, candidates and earlier samples, as a problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.cli.frame.columns import matrix_by_name
from herdcli.cli.frame.session import Session
from herdcli.cli.frame.targets import closed_target, matrix, table
from herdcli.cli.kernel_herd import targets as kernel_herd_tables
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.selection import Group, Problem
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array

MADE = ("grid", "sobol", "sample", "cube")
DRAWN = ("random", "sobol")


@dataclass(frozen=True)
class Inputs:
    """A problem, and for each of its groups the input's rows of its candidates (None: they are no rows of the input)."""

    problem: Problem
    rows: list[Array | None]
    scale: Array
    group_names: list[str] | None
    feature_names: list[str] | None
    history: Artifact | None


@dataclass(frozen=True)
class _Rows:
    """Rows of INPUT: X (n, d) float64, weights (n,) of sum 1, and the group of each."""

    X: Array
    weights: Array
    group: Array | None
    group_names: list[str] | None
    feature_names: list[str] | None
    artifact: Artifact


def read(session: Session, source: str, options: dict[str, Any]) -> Inputs:
    """The problem that the options ask for."""
    from herdcli.numerics.kernel_names import choose, parse
    from herdcli.numerics.kernels import check_definite
    from herdcli.quadrature import selection
    from herdcli.quadrature.preparation import column_scales

    _refuse(session, options)
    kernel = parse(options["kernel"])
    made, _, rest = (options["candidates"] or "").partition(":")
    made = made if made in MADE else ""
    data = None
    if options["target"] == "rows" or not (options["candidates"] or options["rule"] in DRAWN):
        data = _input_rows(session, source, options)
    earlier = _earlier(session, options)
    if earlier is not None and data is not None:
        data = _in_order_of(session, data, earlier.value)
    given = None
    if options["candidates"] and not made:
        given = _candidates(session, options["candidates"], data)
        session.parameters["candidates"] = "file"
    known = data.X if data is not None else given
    target = _target(session, options, known, data)
    if made:
        from herdcli.quadrature.preparation import candidates

        given = candidates(made, kernel_herd_tables.whole(rest, options["candidates"]), target, options["seed"])
    elif given is None and data is not None and options["target"] != "rows":
        given = data.X
    _agree(target, given)
    basis = data.X if data is not None else given if given is not None else np.stack(target.box())
    scale, constant = column_scales(basis, options["scale"])
    if constant:
        session.console.warn(f"constant columns are left as they are: {', '.join(str(j) for j in constant[:8])}")
    groups, rows = _groups(data, target, given, scale, options)
    basis = basis if data is not None else basis / scale
    kernel = choose(kernel, basis, options["bandwidth"], options["seed"])
    kernel.check(basis if given is None else np.concatenate([basis, given / scale]))
    check_definite(kernel, basis)
    settings = _settings(session, options, kernel_herd_tables.norm_rows(options["norm"], target, given))
    groups = _extended(earlier, options, groups, kernel.text(), scale, settings.norm)
    kernel_herd_tables.tell_repeats(session, options, groups)
    reduce = options["count"] if options["block_rows"] else 0
    return Inputs(
        problem=selection.Problem(kernel, tuple(groups), settings, reduce),
        rows=rows,
        scale=scale,
        group_names=data.group_names if data is not None else None,
        feature_names=data.feature_names if data is not None else None,
        history=data.artifact if data is not None else None,
    )


def _candidates(session: Session, path: str, data: _Rows | None) -> Array:
    """The candidates of a file, their columns in the order of the rows'."""
    X, names = table(session, path, "candidates")
    if data is None:
        return X
    found: Array = matrix_by_name(session, X, names, data.feature_names, data.X.shape[1], where=path)
    return found


def _refuse(session: Session, options: dict[str, Any]) -> None:
    """Options that contradict each other, and warnings for those that do nothing."""
    rule = options["rule"]
    sequence = rule in ("herding", "line-search", "open-loop", "step", *DRAWN)
    if rule == "step" and not options["rates"]:
        raise BadUsage("--rule step needs step sizes", hint="--step constant:0.1, or --step FILE")
    if options["refine"] and rule not in ("herding", *DRAWN):
        raise BadUsage(f"--refine swaps atoms of equal weight, which --rule {rule} has not", hint="herding, random and sobol have")
    if options["polish"] and (rule in DRAWN or not sequence or options["unique"]):
        raise BadUsage("--polish goes with herding, line-search, open-loop and step, without --unique")
    if options["unique"] and (rule in DRAWN or not sequence):
        raise BadUsage(f"--unique does not go with --rule {rule}", hint="rules with an active set take no candidate twice anyway")
    for option in ("by", "candidates", "extend", "polish"):
        if options["block_rows"] and options[option]:
            raise BadUsage(f"--block-rows does not go with --{option}")
    if options["block_rows"] and options["target"] != "rows":
        raise BadUsage("--block-rows goes with --target rows alone")
    if rule != "step":
        session.ignored("rates", f"with --rule {rule}")
    if rule not in ("herding", "line-search", "open-loop", "step"):
        session.ignored("init", f"with --rule {rule}")
    if options["target"] != "rows" or not options["candidates"]:
        session.ignored("norm", "without --candidates and rows")
    if not options["block_rows"]:
        session.ignored("block_atoms", "without --block-rows")


def _settings(session: Session, options: dict[str, Any], norm: int) -> Any:
    from herdcli.quadrature import rules, selection

    rule = rules.Settings(options["rule"], options["init"] or "auto", _rates(session, options), options["unique"], options["seed"])
    return selection.Settings(rule, options["refine"], options["precision"], norm)


def _rates(session: Session, options: dict[str, Any]) -> tuple[float, ...]:
    """Step sizes as numbers, which the record then holds."""
    if options["rule"] != "step":
        return ()
    kind, _, text = options["rates"].partition(":")
    rates: tuple[float, ...]
    if kind == "constant":
        try:
            rates = (float(text),)
        except ValueError:
            raise BadUsage(f"--step '{options['rates']}' is not of the form constant:ρ") from None
    else:
        rates = tuple(float(rate) for rate in table(session, options["rates"], "step")[0].ravel())
        session.parameters["rates"] = "file"
    if not all(0 <= rate <= 1 for rate in rates):
        raise BadUsage("step sizes lie in [0, 1]")
    return rates


def _input_rows(session: Session, source: str, options: dict[str, Any]) -> _Rows:
    """INPUT, its weights and groups."""
    label = None if options["by"] in (None, "y") else options["by"]
    artifact = kernel_herd_tables.spilled(session, source) if options["block_rows"] else None
    artifact = artifact or session.load(source, "data", kinds={"dataset", "samples"}, input_format=options["input_format"], label=label)
    X, names = matrix(artifact)
    weights = getattr(artifact.value, "weight", None)
    group: Array | None = None
    group_names: list[str] | None = None
    if options["row_weight"] and options["row_weight"] != "weight":
        X, names, weights = _without(X, names, options["row_weight"], "--row-weight", artifact.name)
    elif options["row_weight"] and weights is None:
        raise DataError("has no weights", where=artifact.name)
    if options["by"]:
        group = getattr(artifact.value, "y", None)
        group_names = getattr(artifact.value, "class_names", None)
        if group is None:
            X, names, group = _without(X, names, options["by"], "--by", artifact.name)
        values, group = np.unique(group, return_inverse=True)
        group_names = [group_names[int(v)] for v in values] if group_names else [f"{v:g}" for v in values]
    if len(X) < 2:
        raise DataError("has 1 row, which stands for itself", where=artifact.name)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise DataError("weights of rows must be finite, not negative and not all 0", where=artifact.name)
    return _Rows(X, weights / weights.sum(), group, group_names, names, artifact)


def _without(X: Array, names: list[str] | None, column: str, option: str, where: str) -> tuple[Array, list[str] | None, Array]:
    """The matrix without a named column, and that column."""
    if not names or column not in names:
        raise BadUsage(
            f"{option} {column}: there is no such column", where=where, hint=f"columns: {', '.join((names or ['none named'])[:12])}"
        )
    j = names.index(column)
    if X.shape[1] == 1:
        raise DataError(f"has no column besides '{column}'", where=where)
    return np.delete(X, j, axis=1), [name for name in names if name != column], X[:, j].copy()


def _target(session: Session, options: dict[str, Any], known: Array | None, data: _Rows | None) -> Target:
    """The target of the option's text."""
    from herdcli.quadrature.targets import Rows

    if options["target"] == "rows" and data is not None:
        return Rows(data.X, data.weights)
    made, _, count = (options["candidates"] or "").partition(":")
    dimension = options["dimension"] or (
        known.shape[1] if known is not None else kernel_herd_tables.whole(count, "cube") if made == "cube" else 1
    )
    return closed_target(session, options["target"], dimension)


def _agree(target: Target, given: Array | None) -> None:
    if given is not None and given.shape[1] != target.dimension:
        raise DataError(f"candidates have {given.shape[1]} columns, the target has {target.dimension}")


def _groups(
    data: _Rows | None, target: Target, given: Array | None, scale: Array, options: dict[str, Any]
) -> tuple[list[Group], list[Array | None]]:
    """The groups of the problem in scaled columns, and the input's rows of their candidates."""
    from herdcli.quadrature import preparation
    from herdcli.quadrature.selection import Group
    from herdcli.quadrature.targets import Rows

    points = None if given is None else given / scale
    if not isinstance(target, Rows) or data is None:
        if (scale != 1).any():
            raise BadUsage("--scale goes with --target rows: a closed form has its own columns")
        polish = preparation.polish_box(target, points) if options["polish"] and points is not None else None
        return [Group(target, points, options["count"], polish)], [None]
    parts = _parts(data, options["block_rows"])
    count = min(options["block_atoms"] or 4 * options["count"], options["block_rows"]) if options["block_rows"] else options["count"]
    groups = []
    np.divide(data.X, scale, out=data.X)
    for part in parts:
        weights = data.weights[part]
        contiguous = part[-1] - part[0] + 1 == len(part)  # then rows are shared, not copied
        X = data.X[part[0] : part[-1] + 1] if contiguous else data.X[part]
        own = Rows(X, weights if options["block_rows"] else weights / weights.sum())
        polish = preparation.polish_box(own, own.X if points is None else points) if options["polish"] else None
        groups.append(Group(own, points, count, polish))
    return groups, [part if points is None else None for part in parts]


def _parts(data: _Rows, block: int | None) -> list[Array]:
    """Rows of each group: all, those of each value of --by, or blocks one after the other."""
    n = len(data.X)
    if data.group is not None and data.group_names is not None:
        parts = [np.flatnonzero(data.group == g) for g in range(len(data.group_names))]
        empty = [name for name, part in zip(data.group_names, parts, strict=True) if not data.weights[part].any()]
        if empty:
            raise DataError(f"the rows of group {empty[0]} have no weight")
        return parts
    if block is None:
        return [np.arange(n)]
    parts = [np.arange(start, min(start + block, n)) for start in range(0, n, block)]
    return [part for part in parts if data.weights[part].any()]


def _earlier(session: Session, options: dict[str, Any]) -> Artifact | None:
    """The samples that --extend names."""
    if not options["extend"]:
        return None
    artifact = session.load(options["extend"], "extended", kinds={"samples"})
    session.parameters["extend"] = "file"
    return artifact


def _in_order_of(session: Session, data: _Rows, earlier: Samples) -> _Rows:
    """INPUT with its columns in the order of earlier samples'."""
    names = earlier.feature_names
    X = matrix_by_name(session, data.X, data.feature_names, names, earlier.x.shape[1], where=data.artifact.name)
    return data if X is data.X else replace(data, X=X, feature_names=names)


def _extended(earlier: Artifact | None, options: dict[str, Any], groups: list[Group], kernel: str, scale: Array, norm: int) -> list[Group]:
    """Groups that go on from earlier samples, once these are known to belong to the same run."""
    if earlier is None:
        return groups
    from herdcli.quadrature.selection import continued

    return continued(groups, earlier.value, options["rule"], kernel, scale, norm)
