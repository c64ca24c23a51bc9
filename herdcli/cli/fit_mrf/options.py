"""What `herd fit-mrf` is asked: structure, constraints and the settings of the algorithms."""

from __future__ import annotations

import click

from herdcli.cli.frame.options import Command, Parsed
from herdcli.markov.learning.table import ALGORITHMS, DIRECTED, SCORES


def _parse_structure(text: str) -> tuple[str, float, int]:
    from herdcli.markov.model import structure

    return structure.parse(text)


STRUCTURE = Parsed("structure", _parse_structure)


def structure_options(command: Command) -> Command:
    """Which variables are joined, and what is asked of them."""
    for option in (
        click.option(
            "--base", metavar="NETWORK", default=None, help="Find the distribution nearest to this network (least KL divergence)."
        ),
        click.option(
            "--features", metavar="FILE", default=None, help="Clusters of which only expectations of features are fitted, as JSON."
        ),
        click.option("--moments", metavar="FILE", default=None, help="Marginals and expectations to fit, as JSON, instead of DATA."),
        click.option("--network", metavar="FILE", default=None, help="A Bayesian network that gives the parents of --algorithm bayes."),
        click.option("--max-parents", type=click.IntRange(1), default=3, show_default=True, help="Most parents that hill-climb gives."),
        click.option("--score", type=click.Choice(SCORES), default="bic", show_default=True, help="What hill-climb maximises."),
        click.option(
            "--equivalent-rows", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="Prior rows of --score bdeu."
        ),
        click.option(
            "--tabu",
            type=click.IntRange(0),
            default=10,
            show_default=True,
            help="Edges that hill-climb does not change again for as many steps, in which it goes on without a better network.",
        ),
        click.option("--required-edges", metavar="FILE", default=None, help="Edges that hill-climb keeps, a parent and a child per line."),
        click.option("--forbidden-edges", metavar="FILE", default=None, help="Edges that hill-climb leaves out, likewise."),
        click.option(
            "--bootstrap",
            type=click.IntRange(0),
            default=0,
            metavar="N",
            help="Learn from N bootstrap samples too, for the support of edges.",
        ),
        click.option("--support", metavar="FILE", default=None, help="Write the share of the samples that have each edge, CSV."),
        click.option("--path", metavar="FILE", default=None, help="Write the path of --structure l1 or stability as a table, CSV."),
        click.option(
            "--smoothing",
            type=click.FloatRange(0),
            default=None,
            help="Pseudo-rows of the uniform distribution to add to DATA.  [default: 1]",
        ),
        click.option(
            "--induce", type=click.IntRange(0), default=0, metavar="N", help="Add the N pairs with the largest gain in likelihood."
        ),
        click.option("--clusters", metavar="FILE", default=None, help="The clusters, one per line: its variables."),
        click.option("--edges", metavar="FILE", default=None, help="The pairs, two variables per line."),
        click.option(
            "--structure",
            type=STRUCTURE,
            default=None,
            metavar="NAME",
            help="chow-liu, chow-liu+random:P,R (and each pair at most R steps apart on the tree with probability P), grid, full, "
            "independent; l1[:PENALTY] (pairs that l1-penalised regressions of two-state variables choose, by extended BIC where no "
            "penalty is given), stability[:HALVES] (pairs chosen in three quarters of random halves of the rows); hill-climb (of "
            "--algorithm bayes, by --score).  [default: chow-liu]",
        ),
        click.option(
            "--values",
            type=click.Choice(["auto", "two", "states"]),
            default="auto",
            show_default=True,
            help="How columns are read: on and off, or whole numbers as states; auto: states where there are some above 1 and no range.",
        ),
    ):
        command = option(command)
    return command


def learning_options(command: Command) -> Command:
    """--algorithm and the settings of each."""
    for option in (
        click.option("--sweeps", type=click.IntRange(1), default=1, show_default=True, help="Gibbs sweeps per update of gradient."),
        click.option(
            "--chains",
            type=click.IntRange(1),
            default=100,
            show_default=True,
            help="Number of Gibbs chains of gradient.",
        ),
        click.option(
            "--learning-rate",
            type=click.FloatRange(0, min_open=True),
            default=0.5,
            show_default=True,
            help="Initial step size of gradient with gibbs or cd; it falls to 0 over the iterations.",
        ),
        click.option(
            "--expectations",
            type=click.Choice(["exact", "gibbs", "cd"]),
            default="exact",
            show_default=True,
            help="What gradient compares the data with; gibbs: persistent chains; cd: chains that start at rows.",
        ),
        click.option(
            "--penalty",
            type=click.FloatRange(0),
            default=0.0,
            show_default=True,
            help="L2 penalty on log factors (gradient, pseudo-likelihood).",
        ),
        click.option(
            "--damping",
            type=click.FloatRange(0, 1, max_open=True),
            default=0.0,
            show_default=True,
            help="Share of its old value that each separator of loopy-is keeps (geometric mean); .7 mostly ends where 0 runs away.",
        ),
        click.option("--double-loop", is_flag=True, help="Let loopy-is maximise its entropy by a double loop, which always converges."),
        click.option("--regions", metavar="FILE", default=None, help="The cliques of loopy-is and cvm, one per line."),
        click.option(
            "--max-clique",
            type=click.IntRange(2),
            default=None,
            metavar="K",
            help="Grow the cliques of loopy-is and cvm to K variables, inside those of the junction tree, by mutual information.",
        ),
        click.option("--orders", type=click.IntRange(1), default=8, show_default=True, help="Elimination orders tried for junction trees."),
        click.option(
            "--tolerance", type=click.FloatRange(0, min_open=True), default=1e-9, show_default=True, help="Largest error of a marginal."
        ),
        click.option(
            "--algorithm",
            type=click.Choice([*ALGORITHMS, *DIRECTED]),
            default="ups-jt",
            show_default=True,
            help="Exact: ups-jt, effective-ipf, ipf, gis, iis, gradient.  Approximate: loopy-is, cvm, pseudo-likelihood, linear-response.  "
            "bayes: the tables of a Bayesian network, by EM where values are missing or variables hidden.",
        ),
    ):
        command = option(command)
    return command
