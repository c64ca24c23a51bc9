"""herd kernel-herd: options of kernel herding; choosing atoms is in herdcli.quadrature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.options.common_options import (
    Parsed,
    checkpoint_options,
    cleaning_options,
    exact_option,
    input_argument,
    input_format_option,
    output_options,
    seed_option,
    stage,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards
from herdcli.cli.kernel_herd.options import RULES, group_options, large_options, parse_bandwidth, parse_norm, parse_scale
from herdcli.cli.kernel_herd.request import IN_SMALL_BLOCKS, Request
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("kernel-herd", cls=Command)
@input_argument
@click.option("-m", "--count", type=click.IntRange(1), required=True, help="Number of atoms (chosen points), in each group.")
@click.option(
    "--rule",
    type=RULES,
    default="herding",
    help="How atoms are chosen.  herding: equal weights, any first t atoms are good; min-norm-point: smallest error; others: see above.  "
    "[default: herding; greedy with Stein kernels]",
)
@click.option(
    "--init",
    type=click.Choice(["nearest", "zero", "mean"]),
    default=None,
    help="First atom: the candidate nearest to the mean embedding, or the first candidate (zero).  mean: start from the mean embedding "
    "instead of 0, for grids over wide boxes.  [default: nearest for rows, else zero]",
)
@click.option(
    "--step",
    "rates",
    metavar="constant:ρ|FILE",
    default=None,
    help="Step sizes of --rule step, from 0 to 1: the constant ρ, or a file with one for each atom.",
)
@click.option(
    "--refine",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Passes that replace each atom by the candidate that lowers the error most (rules with equal weights).  Try 10 for a small "
    "error with --count equally weighted atoms.",
)
@click.option("--unique", is_flag=True, help="Choose no candidate twice.")
@click.option(
    "--weights",
    type=click.Choice(["rule", "uniform", "simplex", "affine", "free"]),
    default="rule",
    show_default=True,
    help="Weights of the atoms: the rule's own, equal ones, or those with the smallest error: non-negative with sum 1 (simplex), with "
    "sum 1 (affine), or any (free).",
)
@click.option(
    "--kernel",
    metavar="NAME[:PARAMETER]",
    default="gaussian",
    show_default=True,
    help="Kernel that compares points, or a sum or product of kernels: see above.",
)
@click.option(
    "--scores",
    metavar="FILE|PREFIX",
    default=None,
    help="Gradients of the log density at each row, for Stein kernels: a file, or columns with this prefix.",
)
@click.option(
    "--bandwidth",
    type=Parsed("median|float", parse_bandwidth),
    default="median",
    show_default=True,
    help="Length scale of kernels that are given without one: the median distance between rows, or a number.",
)
@click.option(
    "--scale",
    type=Parsed("none|std|range|numbers", parse_scale),
    default="none",
    show_default=True,
    help="Divisor of each column: its standard deviation (std), its range, or a number for each, S1,S2,…; use std for mixed units.",
)
@click.option(
    "--target",
    metavar="rows|NAME[:…]",
    default="rows",
    show_default=True,
    help="What the atoms represent: the rows of INPUT, or the distribution uniform[:LO,HI], gaussian[:MEAN,SD|FILE], mixture:FILE (of "
    "Gaussians), trigonometric:FILE (on [0,1]), signs:FILE (of a Gaussian vector), or moments:FILE (mean and second moments alone).",
)
@click.option(
    "--dimension",
    type=click.IntRange(1),
    default=None,
    help="Number of columns of a uniform or gaussian target.  [default: as many as the candidates have, else 1]",
)
@click.option(
    "--candidates",
    metavar="FILE|grid:N|sobol:N|sample:N|cube:D",
    default=None,
    help="Points that atoms are chosen from: a file, a grid of N values per column, N Sobol points, N draws from the target (sample), or "
    "all states of D two-valued variables (cube).  [default: the rows]",
)
@click.option(
    "--norm",
    type=Parsed("exact|sample:N", parse_norm),
    default=None,
    help="With --candidates: compute the squared norm of the rows' mean embedding, a constant in the error, from all pairs of rows, or "
    "estimate it from N rows.  [default: exact up to 10,000 rows, then sample:2000]",
)
@click.option("--polish", is_flag=True, help="Move each chosen candidate to the best point near it, within the range of the target.")
@click.option(
    "--label",
    metavar="COLUMN[:KERNEL]",
    default=None,
    help="Represent rows together with this label: multiply --kernel by a kernel on the label.  [default kernel: hamming for whole numbers "
    "and names, else gaussian]",
)
@group_options
@click.option(
    "--row-weight", metavar="COLUMN", default=None, help="Column with the weights of the rows.  [default: weight, if there is one]"
)
@large_options
@click.option(
    "--trace-projected",
    is_flag=True,
    help="Also store the error under the best non-negative weights for 1 to --count atoms (some eight numbers per power of ten), for "
    "herd eval --trace.",
)
@click.option("--extend", metavar="ARTIFACT", default=None, help="Add atoms to the result of an earlier run, up to --count.")
@click.option("--no-state", is_flag=True, help="Leave out the state that --extend needs, for a smaller file.")
@stage(
    Request,
    input_format_option,
    cleaning_options,
    seed_option,
    threads_option,
    exact_option,
    shards.shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Choose a few weighted points (atoms) that represent a data set or a density, by kernel herding and related methods.

    \b
      herd data digits | herd kernel-herd -m 100 -o prototypes.h5
      herd kernel-herd -m 100 --target uniform --kernel bernoulli:1 --candidates grid:4096

    \b
    Kernels: gaussian, laplace, matern12, matern32, matern52, inverse-multiquadric,
    rational-quadratic[:ℓ,α], energy, linear, polynomial:p[,c], hamming[:λ], bernoulli:1|2|3 on [0,1],
    features:x, features:x+xx; joined by + and *, numbers are weights: '0.5*gaussian:1+linear'.
    For draws of a sampler, with --scores: stein:imq or stein:gaussian, with a length (stein:imq,2.5)
    or the covariance of the rows (stein:imq,smpcov) as metric; --by CHAIN treats each chain separately.

    Rules: start with herding, or with min-norm-point, which also chooses weights and usually has the smallest error.
    greedy, line-search, open-loop and step are variants of herding; away, pairwise and bpcg also choose weights;
    random and sobol draw atoms from the target.  For comparison there are kernel-thinning, compress++,
    support-points and facility-location, which choose rows with equal weights, and rpcholesky, whose weights
    have any sign and sum.

    The error is the MMD (maximum mean discrepancy): the distance between the mean embedding of the atoms and that
    of the target.  A mean embedding is the average of the kernel over all points.  The result holds the MMD for
    each number of atoms; -o FILE.csv or FILE.parquet writes a table of the atoms: row, weight, MMD, columns.

    If several candidates are equally good, the first one is taken.  A row can be chosen more than once; --unique
    prevents that, but not the choice of another row with the same values.  With herding, greedy, line-search,
    open-loop, step, random and sobol a larger --count only adds atoms (not with --refine).
    """
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.cli.kernel_herd import block_tree, groups, inputs, results, stream_sketches

    if not request.by and (stream_sketches.uses_stream(request) or not block_tree.uses_block_tree(request)):
        shards.refuse_shards(session, "--by COLUMN makes groups of rows, and --block-rows N blocks of a file's")
    results.check_output(session, request)
    if request.report and (stream_sketches.uses_stream(request) or block_tree.uses_block_tree(request) or session.shard is not None):
        raise BadUsage("--report needs all rows in memory, in one run", hint="leave out --block-rows and --shard, or --report")
    if stream_sketches.uses_stream(request):
        stream_sketches.select_from_stream(session, request)
        return
    with streamed_rows.suggest_streaming(IN_SMALL_BLOCKS, lambda: request.has_blocks, request.source):
        if block_tree.uses_block_tree(request):
            block_tree.select_in_blocks(session, request)
        else:
            groups.select_atoms(session, inputs.read_problem(session, request), request)
