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
@click.option("-m", "--count", type=click.IntRange(1), required=True, help="Number of atoms, in each group.")
@click.option("--rule", type=RULES, default="herding", help="How atoms are chosen.  [default: herding; of stein kernels greedy]")
@click.option(
    "--init",
    type=click.Choice(["nearest", "zero", "mean"]),
    default=None,
    help="The first atom: the candidate nearest to μ, or candidate 0, both with w₀ = 0; or w₀ = μ.  [default: nearest for rows, else zero]",
)
@click.option("--step", "rates", metavar="constant:ρ|FILE", default=None, help="Step sizes of --rule step; a file holds ρ₁, ρ₂, ….")
@click.option("--refine", type=click.IntRange(0), default=0, show_default=True, help="Swap passes over atoms of equal weight.")
@click.option("--unique", is_flag=True, help="Choose no candidate twice.")
@click.option(
    "--weights",
    type=click.Choice(["rule", "uniform", "simplex", "affine", "free"]),
    default="rule",
    show_default=True,
    help="The rule's own weights, equal ones, or the best: non-negative with sum 1 (simplex), with sum 1 (affine), or any (free).",
)
@click.option(
    "--kernel", metavar="NAME[:PARAMETER]", default="gaussian", show_default=True, help="A kernel, or sums and products of kernels."
)
@click.option(
    "--scores", metavar="FILE|PREFIX", default=None, help="∇ log p at each row, for stein kernels: a file, or columns named PREFIX…."
)
@click.option(
    "--bandwidth",
    type=Parsed("median|float", parse_bandwidth),
    default="median",
    show_default=True,
    help="Length scale of kernels without one: the median distance, or a number.",
)
@click.option(
    "--scale", type=Parsed("none|std|range|numbers", parse_scale), default="none", show_default=True, help="What columns are divided by."
)
@click.option(
    "--target",
    metavar="rows|NAME[:…]",
    default="rows",
    show_default=True,
    help="The rows, or uniform[:LO,HI], gaussian[:MEAN,SD|FILE], mixture:FILE, trigonometric:FILE, signs:FILE, moments:FILE.",
)
@click.option(
    "--dimension", type=click.IntRange(1), default=None, help="Columns of uniform and gaussian targets.  [default: the candidates', else 1]"
)
@click.option(
    "--candidates", metavar="FILE|grid:N|sobol:N|sample:N|cube:D", default=None, help="What atoms are chosen from.  [default: the rows]"
)
@click.option(
    "--norm",
    type=Parsed("exact|sample:N", parse_norm),
    default=None,
    help="With --candidates: ‖μ‖² from all pairs of rows, or estimated from N.  [default: exact to 10,000 rows, then sample:2000]",
)
@click.option("--polish", is_flag=True, help="Search around each chosen candidate, in the target's interval or box.")
@click.option(
    "--label",
    metavar="COLUMN[:KERNEL]",
    default=None,
    help="Rows with this label: --kernel times one on it.  [default: hamming or gaussian]",
)
@group_options
@click.option("--row-weight", metavar="COLUMN", default=None, help="Weights of the rows.  [default: weight, where the data have it]")
@large_options
@click.option("--trace-projected", is_flag=True, help="Store the MMD of simplex weights at log-spaced numbers of atoms.")
@click.option("--extend", metavar="ARTIFACT", default=None, help="Extend these samples to --count atoms.")
@click.option("--no-state", is_flag=True, help="Leave out the state that --extend needs.")
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
    """Choose a few weighted points that represent a data set or a density: kernel herding and conditional gradients.

    \b
      herd data digits | herd kernel-herd -m 100 -o prototypes.h5
      herd kernel-herd -m 100 --target uniform --kernel bernoulli:1 --candidates grid:4096

    \b
    Kernels: gaussian, laplace, matern12, matern32, matern52, inverse-multiquadric,
    rational-quadratic[:ℓ,α], energy, linear, polynomial:p[,c], hamming[:λ], bernoulli:1|2|3 on [0,1],
    features:x, features:x+xx; joined by + and *, numbers are weights: '0.5*gaussian:1+linear'.
    Of a sampler's rows with --scores: stein:imq, stein:gaussian, with a length or the rows'
    covariance as metric: stein:imq,2.5, stein:imq,smpcov; --by CHAIN treats each chain separately.

    Other methods, for comparison: kernel-thinning and compress++ (with a swap pass of their own),
    support-points (energy distance, moved to the nearest rows), facility-location: equal weights, of
    the rows alone; rpcholesky: weights of any sign and sum, of any candidates.

    Ties go to the lowest row; a row may be chosen again (not with --unique), as may its
    duplicate.  The first m atoms of herding, greedy, line-search, open-loop, step, random and sobol are the
    same whatever --count (not after --refine).  The artifact holds the MMD for each number of atoms; -o FILE.csv and
    FILE.parquet are plain tables of the atoms: row, weight, MMD, columns.
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
