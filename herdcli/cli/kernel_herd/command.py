"""The command `herd kernel-herd`: options for kernel herding; the choice of atoms is in herdcli.quadrature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    cleaning_options,
    command_with_request,
    csv_output_options,
    input_argument,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.cli.kernel_herd.request import IN_ONE_RUN, IN_SMALL_BLOCKS, REPORT_HINT, Request
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("kernel-herd", cls=Command)
@input_argument
@command_with_request(Request, cleaning_options, threads_option, shards.shard_option, checkpoint_options, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Choose a few weighted points (atoms) that represent a data set or a density, by kernel herding and related methods.

    \b
      herd data digits | herd kernel-herd -m 100 -o prototypes.h5
      herd kernel-herd -m 100 --distribution uniform --kernel bernoulli:1 --candidates grid:4096

    \b
    Kernels: gaussian, laplace, matern12, matern32, matern52, inverse-multiquadric,
    rational-quadratic[:ℓ,α], energy, linear, polynomial:p[,c], hamming[:λ], bernoulli:1|2|3 on [0,1],
    features:x (compares means), features:x+xx (means and second moments); join kernels with + and *, and
    write a weight before *: '0.5*gaussian:1+linear'.  For draws of a sampler, with --scores (--help-all):
    stein:imq or stein:gaussian; distances are divided by a length (stein:imq,2.5) or scaled by the
    covariance of the rows (stein:imq,smpcov).  --by CHAIN treats each chain separately.

    Rules: start with herding, or with min-norm-point, which also chooses weights and usually has the smallest error.
    greedy, line-search, open-loop and step are variants of herding; away, pairwise and bpcg also choose weights;
    random and sobol draw atoms from the target.  For comparison there are kernel-thinning, compress++,
    support-points and facility-location, which choose rows with equal weights, and rpcholesky, whose weights
    can be negative and need not sum to 1.

    The error is the MMD (maximum mean discrepancy): the distance between the mean embedding of the atoms and that
    of the target.  A mean embedding is the average of the kernel over all points.  The result holds the MMD for
    each number of atoms; -o FILE.csv or FILE.parquet writes a table of the atoms: row, weight, MMD, columns.

    If several candidates are equally good, the first one is taken.  A row can be chosen more than once; --unique
    prevents that, but not the choice of another row with the same values.  With herding, greedy, line-search,
    open-loop, step, random and sobol a larger --count only adds atoms (not with --refine).
    """
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.cli.kernel_herd import block_tree, groups, inputs, results, stream_sketches

    if not request.by and (
        stream_sketches.uses_stream(request.source, request.block_rows, request.target)
        or not block_tree.uses_block_tree(request.block_rows, request.target)
    ):
        shards.refuse_shards(session, "divide the rows into groups with --by COLUMN, or into blocks of a file with --block-rows N")
    results.check_output(session, request)
    if request.report and session.shard is not None:
        raise BadUsage(IN_ONE_RUN, hint=REPORT_HINT)
    if stream_sketches.uses_stream(request.source, request.block_rows, request.target):
        stream_sketches.select_from_stream(session, request)
        return
    with streamed_rows.suggest_streaming(IN_SMALL_BLOCKS, lambda: request.has_blocks, request.source):
        if block_tree.uses_block_tree(request.block_rows, request.target):
            block_tree.select_from_own_blocks(session, request)
        else:
            groups.select_atoms(session, inputs.read_inputs(session, request), request)
