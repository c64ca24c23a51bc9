"""herd fit-rbm: options of RBM learning; the learning is in herdcli.rbm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.fit_rbm.options import (
    ALGORITHMS,
    BATCH_SIZE,
    HIDDEN,
    layer_options,
    pairs_option,
    recurrent_options,
    standardize_option,
    variant_options,
    watch_options,
)
from herdcli.cli.fit_rbm.request import Request, SequencesRequest
from herdcli.cli.frame import exact_mode, shards
from herdcli.cli.frame.common_options import (
    checkpoint_options,
    data_options,
    exact_option,
    input_argument,
    output_options,
    seed_option,
    stage,
    threads_option,
)
from herdcli.cli.frame.help_pages import Command
from herdcli.cli.frame.unit_options import unit_options

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session


@click.command("fit-rbm", cls=Command)
@input_argument
@click.option("--hidden", type=HIDDEN, default=100, show_default=True, help="Hidden units; auto tries 4 to 500.")
@click.option(
    "--algorithm",
    type=click.Choice(ALGORITHMS),
    default="auto",
    show_default=True,
    help="How the gradient is computed; auto: rpcd (chains that restart at rows) of up to 32 two-state units, pt of words, else cd.",
)
@click.option(
    "--steps", type=click.IntRange(1), default=1, show_default=True, help="Gibbs sweeps per update (the k of CD-k); tap: iterations."
)
@click.option(
    "--chains",
    type=click.IntRange(1),
    default=None,
    help="Persistent chains.  [default: the batch size, rpcd: at least 100, words: 10 more]",
)
@click.option("--epochs", type=click.IntRange(1), default=100, show_default=True, help="Passes over the training rows.")
@click.option("--batch-size", type=BATCH_SIZE, default=20, show_default=True, help="Rows per update.")
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    default=None,
    help="Rate of the first update.  [default: by units, batch and updates]",
)
@click.option(
    "--rate-decay",
    type=click.Choice(["linear", "cosine", "inverse", "none"]),
    default="linear",
    show_default=True,
    help="How the rate falls: to 0 by the end, along a line or a cosine; inverse: to a tenth; or not.",
)
@click.option(
    "--momentum", type=click.FloatRange(0, 1, max_open=True), default=0.9, show_default=True, help="Share of the last update that is kept."
)
@click.option(
    "--weight-decay", type=click.FloatRange(0), default=None, help="L2 penalty.  [default: two-state: by rows, to .0005; others: .0001]"
)
@click.option("--per-class", is_flag=True, help="One model per label, and class scores for eval.")
@click.option(
    "--folds", type=click.IntRange(2), default=None, help="With --per-class: score training rows too, by models that did not see them."
)
@click.option(
    "--average-scores",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="With --per-class: average energies over the last N updates.",
)
@stage(
    Request,
    layer_options,
    pairs_option,
    recurrent_options,
    unit_options,
    standardize_option,
    variant_options,
    watch_options,
    data_options,
    seed_option,
    threads_option,
    exact_option,
    shards.shard_option,
    checkpoint_options,
    output_options,
)
def command(session: Session, request: Request) -> None:
    """Learn restricted Boltzmann machines, harmoniums with any unit families.

    \b
      herd data digits | herd fit-rbm --hidden 100 -o digits.rbm.h5
      herd data digits | herd fit-rbm --per-class --hidden 16 | herd eval
      herd data digits | herd fit-rbm --layers 64,64 --epochs 10 -o deep.h5
      herd data digits | herd convert --split 9,0,3 -o few.h5
      herd fit-rbm --pairs few.h5 --hidden 20 --epochs 5 | herd eval --gallery few.h5
      herd fit-rbm nights.csv --recurrent --visible-units gaussian --standardize | herd eval

    Rows of split 0 are learned from; those of 1 and 2 are stored for eval.  With --continue units are the model's,
    and --epochs counts further ones.
    """
    if isinstance(request, SequencesRequest):
        from herdcli.cli.fit_rbm.recurrent_fit import fit_recurrent

        shards.refuse_shards(session, "a model of sequences is learned in one run")
        exact_mode.refuse_exact(session, "--recurrent")
        fit_recurrent(session, request)
        return
    rounds = session.cluster is not None and not (request.pairs or request.layers or request.below)
    if not request.per_class and not request.model and not rounds:
        shards.refuse_shards(session, "--per-class learns several models, one per label")
    exact_mode.refuse_options(session, {"pairs": request.pairs, "layers": request.layers, "below": request.below})
    if request.pairs:
        from herdcli.cli.fit_rbm.image_pairs import fit_pairs

        fit_pairs(session, request)
        return
    request.warn_of_ignored(session)
    if request.layers or request.below:
        from herdcli.cli.fit_rbm.deep_layers import fit_dbn

        fit_dbn(session, request, request.settings())
    else:
        from herdcli.cli.fit_rbm.model_runs import fit_models

        fit_models(session, request)
