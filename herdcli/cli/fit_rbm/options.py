"""The options of `herd fit-rbm` that choose what is learned and the variant of learning."""

from __future__ import annotations

import click

from herdcli.cli.frame.common_options import Command, Parsed

ALGORITHMS = ["auto", "cd", "pcd", "rpcd", "fpcd", "pt", "tap", "pseudo-likelihood", "exact"]


def _parse_batch_size(text: str) -> int:
    """A number of rows, or `all`, which is 0."""
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("is neither a number of rows nor 'all'")
    return int(text)


BATCH_SIZE = Parsed("n|all", _parse_batch_size)


class _HiddenUnits(click.ParamType):  # type: ignore[type-arg]
    """A number of units, or `auto`."""

    name = "n|auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if value == "auto":
            return value
        try:
            number = int(str(value))
        except ValueError:
            raise click.BadParameter(f"'{value}' is neither a number of units nor 'auto'", ctx, param) from None
        return click.IntRange(1).convert(number, param, ctx)


HIDDEN = _HiddenUnits()


def _parse_sizes(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError("is not a list of numbers of hidden units, as 500,250")
    return tuple(map(int, sizes))


def layer_options(command: Command) -> Command:
    """--layers and --below."""
    for option in (
        click.option(
            "--below", metavar="MODEL", default=None, help="Train the next layer on this model, from its hidden states given the rows."
        ),
        click.option(
            "--layers",
            type=Parsed("n,n,…", _parse_sizes),
            default=None,
            metavar="N,N,…",
            help="Learn a deep belief network: hidden units of each layer, the lowest first.",
        ),
    ):
        command = option(command)
    return command


def pairs_option(command: Command) -> Command:
    """--pairs."""
    return click.option(
        "--pairs",
        is_flag=True,
        help="Learn all ordered pairs of rows of one label, as faces of one person.  Different defaults: rate:10 and 100 rate:100 units, "
        "2000 batches of 100, rates .0025 and .005 (biases) without decay, momentum .95, visible mean field.",
    )(command)


def recurrent_options(command: Command) -> Command:
    """--recurrent, and what goes with it alone."""
    for option in (
        click.option(
            "--window",
            type=click.IntRange(2),
            default=None,
            metavar="N",
            help="With --recurrent: longer sequences are learned in pieces of at most N rows.  [default: 100]",
        ),
        click.option(
            "--links",
            type=click.Choice(["both", "hidden", "none"]),
            default="both",
            show_default=True,
            help="With --recurrent: layers whose biases depend on the row before; none: an ordinary RBM, to compare with.",
        ),
        click.option(
            "--sequence",
            metavar="COLUMN",
            default=None,
            help="With --recurrent: column that says which sequence a row belongs to.  [default: sequence]",
        ),
        click.option(
            "--recurrent",
            is_flag=True,
            help="Learn a recurrent temporal RBM of sequences of rows.  Different defaults: 20 hidden units, 5 Gibbs sweeps, 5 sequences a "
            "batch, first weights of .1, a rate of .2 for two-state units; and the epoch that does best on split 1 is kept.",
        ),
    ):
        command = option(command)
    return command


def standardize_option(command: Command) -> Command:
    """--standardize."""
    return click.option(
        "--standardize",
        is_flag=True,
        help="gaussian visible units: subtract the training mean of each column and divide by its standard deviation.",
    )(command)


def variant_options(command: Command) -> Command:
    """What changes the gradient or the weights after a step."""
    rate = click.FloatRange(0, min_open=True)
    for option in (
        click.option(
            "--optimizer",
            type=click.Choice(["momentum", "adam", "natural"]),
            default=None,
            help="adam: gradient over its root mean square; natural: over the Fisher diagonal, centred.  [default: momentum]",
        ),
        click.option(
            "--final-steps",
            type=click.IntRange(1),
            default=None,
            metavar="N",
            help="Gibbs sweeps of the last updates; their number goes there evenly.  [default: --steps]",
        ),
        click.option(
            "--labels",
            type=click.Choice(["generative", "discriminative", "hybrid"]),
            default=None,
            help="Learn rows with their labels as one more visible unit: log p(v, y), log p(y | v), or this and a share of that.",
        ),
        click.option(
            "--generative-share",
            type=click.FloatRange(0),
            default=None,
            help="With --labels hybrid: weight of log p(v, y).  [default: 0.01]",
        ),
        click.option(
            "--learn-variances", is_flag=True, default=None, help="gaussian visible units: learn the standard deviation of each column."
        ),
        click.option(
            "--replicas",
            type=click.IntRange(2),
            default=None,
            help="pt: temperatures of each chain; of words chains shorter than all rows.  [default: 10]",
        ),
        click.option(
            "--fast-decay",
            type=click.FloatRange(0, 1, max_open=True),
            default=0.95,
            show_default=True,
            help="fpcd: share of the fast weights that is kept.",
        ),
        click.option("--fast-rate", type=rate, default=None, help="fpcd: rate of the fast weights.  [default: --learning-rate]"),
        click.option("--sparsity-cost", type=click.FloatRange(0), default=0.1, show_default=True, help="Weight of --sparsity-target."),
        click.option(
            "--sparsity-target",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            default=None,
            help="Target mean of the hidden units, as a share of their range.",
        ),
        click.option("--non-negative", is_flag=True, help="Set negative weights to 0 after each update."),
        click.option(
            "--centering/--no-centering", default=None, help="Learn with units centred at their means.  [default: two-state units are]"
        ),
        click.option(
            "--mean-field",
            type=click.Choice(["none", "visible", "both"]),
            default="none",
            show_default=True,
            help="cd: units of the chain that are means, not samples.",
        ),
        click.option(
            "--initial-scale", type=click.FloatRange(0), default=0.01, show_default=True, help="Standard deviation of the first weights."
        ),
        click.option("--l1-decay", type=click.FloatRange(0), default=0.0, show_default=True, help="L1 penalty on the weights."),
        click.option("--bias-rate", type=rate, default=None, help="Rate of the biases.  [default: --learning-rate]"),
    ):
        command = option(command)
    return command


def watch_options(command: Command) -> Command:
    """What is looked at while a model learns, when it stops, and what it goes on from."""
    for option in (
        click.option(
            "--on-disk",
            is_flag=True,
            default=None,
            help="Read rows in shuffled blocks.  [default: if they would take more than --max-memory]",
        ),
        click.option(
            "--track-likelihood",
            is_flag=True,
            default=None,
            help="Keep log Z along the updates (trajectory annealing): the likelihood after every epoch, with its error, for eval --plot "
            "tracked.",
        ),
        click.option(
            "--draw-missing",
            is_flag=True,
            default=None,
            help="Learn from rows with missing values: draw them in every update given the others.",
        ),
        click.option("--keep-state", is_flag=True, default=None, help="Store in the artifact the state that --continue needs."),
        click.option("--continue", "model", metavar="MODEL", default=None, help="Continue training this rbm for --epochs more."),
        click.option(
            "--average", type=click.IntRange(1), default=None, metavar="N", help="Average the parameters over the last N updates."
        ),
        click.option(
            "--patience",
            type=click.IntRange(1),
            default=None,
            metavar="N",
            help="Stop after N validations without improvement, and keep the best model.",
        ),
        click.option(
            "--validate-every",
            type=click.IntRange(1),
            default=None,
            metavar="N",
            help="Compute the likelihood and free energy of the validation rows after every N epochs.  [default: 1 with --patience]",
        ),
    ):
        command = option(command)
    return command
