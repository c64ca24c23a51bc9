"""What `herd eval` does with samples: another target, held-out rows, figures for each number of atoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from herdcli.artifacts import Artifact
from herdcli.cli.frame.columns import matrix_by_name
from herdcli.cli.frame.session import Session
from herdcli.cli.frame.targets import closed_target, matrix, table
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array

SAMPLES = ("target", "trace", "kernel")  # the options of `sample_options`


def figures(session: Session, artifact: Artifact, options: dict[str, Any], plain: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one artifact of samples, or of a data set seen as equally weighted samples: one, or with --trace one for each t.

    plain  what the artifact says of itself.
    """
    from herdcli.evaluation import samples

    value = artifact.value
    if artifact.kind == "dataset" and not (options["target"] or options["data"]):
        raise BadUsage("a data set is compared with a target", where=artifact.name, hint="--data FILE or --target NAME")
    atoms, weight = _atoms(artifact)
    reference, kernel = None, None
    if options["target"] or options["data"]:
        target = _target(session, options, artifact)
        kernel, scale = _kernel(artifact, options, target)
        atoms, target = atoms / scale, _scaled(target, scale)
        reference = samples.reference(kernel, target, map=session.map)
    if options["trace"]:
        if artifact.kind == "dataset":
            raise BadUsage("--trace needs samples, a data set has no order", where=artifact.name)
        return list(samples.trace(value, reference, kernel))
    return [plain | (samples.compared(kernel, atoms, weight, reference) if reference and kernel else {})]


def _atoms(artifact: Artifact) -> tuple[Array, Array]:
    """Points (m, d) and weights (m,); groups count alike."""
    X, _ = matrix(artifact)
    weight = artifact.value.weight
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    if artifact.kind == "samples":
        return X, weight / artifact.value.groups
    return X, weight / weight.sum()


def _target(session: Session, options: dict[str, Any], artifact: Artifact) -> Target:
    from herdcli.quadrature.targets import Rows

    own, names = matrix(artifact)
    dimension = own.shape[1]
    if options["target"]:
        if options["data"]:
            raise BadUsage("--data and --target are both targets", hint="give one of them")
        return closed_target(session, options["target"], dimension)
    X, have = table(session, options["data"], "data")
    X = matrix_by_name(session, X, have, names, dimension, where=options["data"])
    return Rows(X, np.full(len(X), 1.0 / len(X)))


def _kernel(artifact: Artifact, options: dict[str, Any], target: Target) -> tuple[Any, Array]:
    """The kernel of the samples, and the scale of its columns; of a data set the one of --kernel."""
    from herdcli.numerics.kernel_names import choose, parse
    from herdcli.quadrature.targets import Rows

    stored = artifact.value.kernel if artifact.kind == "samples" else ""
    kernel = parse(options["kernel"] or stored or "gaussian")
    X, _ = matrix(artifact)
    scale = artifact.value.scale if artifact.kind == "samples" else None
    basis = target.X if isinstance(target, Rows) else X
    return choose(kernel, basis, "median", options["seed"]), np.ones(X.shape[1]) if scale is None else scale


def _scaled(target: Target, scale: Array) -> Target:
    from herdcli.quadrature.targets import Rows

    if isinstance(target, Rows):
        return Rows(target.X / scale, target.weights)
    if (scale != 1).any():
        raise BadUsage("a closed form has its own columns, the samples were scaled", hint="compare with --data FILE")
    return target


def sample_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--target, --trace and --kernel of `herd eval`."""
    for option in (
        click.option("--kernel", metavar="NAME", default=None, help="Samples: judge with this kernel.  [default: their own]"),
        click.option("--trace", is_flag=True, help="Samples: one row for each of log-spaced numbers of atoms."),
        click.option("--target", metavar="NAME[:…]", default=None, help="Samples: compare with this closed form (see kernel-herd)."),
    ):
        command = option(command)
    return command
