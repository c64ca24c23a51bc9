"""Evaluation of samples by `herd eval`: against another target or held-out rows, and for each number of atoms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows import label_column, sampler_columns, stein_scores
from herdcli.cli.frame.rows.column_order import align_matrix
from herdcli.cli.frame.rows.target_files import parse_target, rows_and_names
from herdcli.errors import BadUsage
from herdcli.evaluation.figures import samples
from herdcli.quadrature.kernels.joint_kernels import MARK
from herdcli.quadrature.kernels.kernel_parsing import choose_length_scales, parse_kernel
from herdcli.quadrature.kernels.stein_kernels import ScoreTarget, SteinKernel
from herdcli.quadrature.targets import RowTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.quadrature.kernels.kernel_functions import Kernel
    from herdcli.quadrature.samples import Samples
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array


def with_target(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return samples, or a data set as equally weighted samples, with the target of --data or --distribution; traced with --curve."""
    if artifact.kind == "dataset" and not (request.target or request.data or request.scores):
        raise BadUsage(
            "to evaluate a data set, herd needs a target", where=artifact.name, hint="use --data FILE, --distribution NAME or --scores FILE"
        )
    atoms, names = _coordinates(session, artifact)
    own = artifact.value if artifact.kind == "samples" else None
    weight = samples.normalized_weights(artifact.value.weight, len(atoms), None if own is None else own.groups)
    reference, kernel = None, None
    if request.scores:
        atoms, kernel = _atoms_and_scores(
            session, request.target, request.data, request.kernel, request.scores, request.seed, artifact, atoms, names
        )
        reference = samples.target_reference(kernel, ScoreTarget(atoms.shape[1]))
    elif request.target or request.data:
        text = request.kernel or (own.kernel if own is not None else "")
        target = _read_target(session, request.target, request.data, atoms.shape[1], names, text)
        kernel, scale = _evaluation_kernel(own, atoms, request.seed, request.kernel, target)
        if scale is not None:
            atoms, target = atoms / scale, _scale_target(target, scale)
        reference = samples.target_reference(kernel, target, map=session.map)
    if request.trace and own is None:
        raise BadUsage("--curve needs samples: the rows of a data set have no order of selection", where=artifact.name)
    shape = artifact.value.image_shape
    return replace(
        artifact,
        value=samples.EvaluatedSamples(own, atoms, weight, reference, kernel, traced=request.trace, feature_names=names, image_shape=shape),
    )


def _coordinates(session: Session, artifact: Artifact, exempt: Sequence[str] = ()) -> tuple[Array, list[str] | None]:
    """Return points (n, d) and the names of their columns; of a data set without the columns of a sampler, except some."""
    X, names = rows_and_names(artifact)
    if artifact.kind != "dataset":
        return X, names
    X, names, left_out = sampler_columns.coordinate_columns(X, names, exempt)
    if left_out:
        session.console.note(f"{artifact.name}: {sampler_columns.left_out_message(left_out)}")
    return X, names


def _atoms_and_scores(
    session: Session,
    target: str | None,
    data: str | None,
    kernel: str | None,
    scores: str | None,
    seed: int,
    artifact: Artifact,
    points: Array,
    names: list[str] | None,
) -> tuple[Array, Kernel]:
    """Return atoms and their scores in the columns of a Stein kernel, and the kernel.

    It is the kernel of --kernel, else the samples' own, else stein:imq.
    """
    own = artifact.value if artifact.kind == "samples" else None
    if target or data:
        raise BadUsage("--scores already describe the target", hint="leave out --data and --distribution")
    text = kernel or (own.kernel if own is not None and own.kernel.startswith("stein") else "stein:imq")
    stein = parse_kernel(text)
    if not isinstance(stein, SteinKernel):
        raise BadUsage(f"--scores need a Stein kernel, not {text}", hint="use --kernel stein:imq")
    X, _, S = stein_scores.read_scores(session, scores, points, names, artifact.name)
    scale: Array = np.ones(X.shape[1]) if own is None or own.scale is None else own.scale
    return np.concatenate([X / scale, S * scale], axis=1), choose_length_scales(stein, X / scale, "median", seed)


def _read_target(session: Session, target: str | None, data: str | None, dimension: int, names: list[str] | None, kernel: str) -> Target:
    """Return the target of --distribution or --data, in the columns of the atoms."""
    if target:
        if data:
            raise BadUsage("--data and --distribution exclude each other", hint="give one of them")
        return parse_target(session, target, dimension)
    read = session.load(str(data), "data", kinds={"dataset", "samples"})
    X, have = _coordinates(session, read, names or ())
    if MARK in kernel and (X.shape[1] < dimension or (have and names and names[-1] not in have)):
        X, have = label_column.append_labels(read, X, have, names[-1] if names else None, "the samples' label")
    X = align_matrix(session, X, have, names, dimension, where=str(data))
    return RowTarget(X, samples.normalized_weights(None, len(X), None))


def _evaluation_kernel(own: Samples | None, atoms: Array, seed: int, kernel: str | None, target: Target) -> tuple[Kernel, Array | None]:
    """Return the kernel of the samples and the scale of its columns; a data set has the kernel of --kernel and no scale."""
    stored = own.kernel if own is not None else ""
    basis = target.X if isinstance(target, RowTarget) else atoms
    chosen: Kernel = choose_length_scales(parse_kernel(kernel or stored or "gaussian"), basis, "median", seed)
    return chosen, None if own is None else own.scale


def _scale_target(target: Target, scale: Array) -> Target:
    if isinstance(target, RowTarget):
        return RowTarget(target.X / scale, target.weights)
    if (scale != 1).any():
        raise BadUsage("--distribution cannot be compared with samples whose columns were scaled", hint="compare with --data FILE")
    return target
