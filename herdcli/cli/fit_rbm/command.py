"""The command `herd fit-rbm`: options for learning RBMs; the learning is in herdcli.rbm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from herdcli.cli.fit_rbm.request import Request, SequencesRequest
from herdcli.cli.frame.options.common_options import (
    checkpoint_options,
    cleaning_options,
    command_with_request,
    input_argument,
    output_options,
    threads_option,
)
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run import shards

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


@click.command("fit-rbm", cls=Command)
@input_argument
@command_with_request(Request, cleaning_options, threads_option, shards.shard_option, checkpoint_options, output_options)
def command(session: Session, request: Request) -> None:
    """Fit restricted Boltzmann machines (RBMs) to binary, count or real data.

    \b
      herd data digits | herd fit-rbm --hidden 100 -o digits.rbm.h5
      herd data digits | herd fit-rbm --per-class --hidden 16 | herd eval
      herd data digits | herd fit-rbm --layers 64,64 --epochs 10 -o deep.h5
      herd fit-rbm nights.csv --recurrent --visible-units gaussian --standardize | herd eval

    Validation and test rows are stored with the model, for herd eval.
    """
    if isinstance(request, SequencesRequest):
        from herdcli.cli.fit_rbm.recurrent_fit import fit_recurrent

        shards.refuse_shards(session, "a model of sequences is learned in one run")
        fit_recurrent(session, request)
        return
    rounds = session.cluster is not None and not (request.pairs or request.layers or request.below)
    if not request.per_class and not request.model and not rounds:
        shards.refuse_shards(session, "use --per-class, which fits one model for each label")
    if request.pairs:
        from herdcli.cli.fit_rbm.image_pairs import fit_image_pairs

        fit_image_pairs(session, request)
        return
    if request.layers or request.below:
        from herdcli.cli.fit_rbm.deep_layers import fit_dbn

        fit_dbn(session, request, request.settings())
    else:
        from herdcli.cli.fit_rbm.model_runs import fit_models

        fit_models(session, request)
