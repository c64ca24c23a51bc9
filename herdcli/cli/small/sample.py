"""herd sample: rows sampled from a model; the sampling is in herdcli.rbm, and in herdcli.em for sequence models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import field_recorded_if_given, input_file_field, settings_from_request
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.common_options import checkpoint_options, command_with_request, csv_output_options, threads_option
from herdcli.cli.frame.options.declaration import Condition, flag, integer_kind, option, text_kind
from herdcli.cli.frame.options.help_pages import Command
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact, Dataset
    from herdcli.cli.frame.run.session import Session

BURN_IN = {"rtrbm": 50}  # default sweeps; other kinds have 1,000


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd sample`; names and meanings are those of its --help."""

    model: str = input_file_field()
    count: int = option(
        integer_kind(1),
        "-m",
        "--count",
        default=100,
        help="Number of rows to draw, per class if there are several; for an hmm, lds or rtrbm, number of sequences.",
    )
    burn_in: int = option(
        integer_kind(1),
        resolved=True,
        help="Gibbs sweeps before the first row of each chain.  [default: 1000 if chains are needed; rtrbm: 50]",
    )
    chains: int | None = option(integer_kind(1), help="Number of Gibbs chains, which share the rows.  [default: one for each row]")
    thin: int = option(
        integer_kind(1),
        default=100,
        only=Condition("chains", why="with one chain for each row"),
        help="Gibbs sweeps between two rows of a chain.",
    )
    means: bool = flag(help="Write the means of the visible units instead of sampled values (smoother images).")
    given: str | None = option(
        text_kind(),
        metavar="FILE",
        record=input_file_field(),
        help="Data set with rows to complete: NaN entries are drawn, the others stay.  For a network: states, or their names.",
    )
    mask: str | None = option(
        text_kind(),
        "--given-mask",
        metavar="FILE",
        record=input_file_field(),
        only=Condition("given", why="without --given"),
        help="With --given: data set with 0 for entries to draw; one row for each row of --given, or one for all.",
    )
    steps: int | None = option(
        integer_kind(1), "--length", record=field_recorded_if_given(), help="hmm, lds, rtrbm: length of each sequence.  [default: 100]"
    )
    missing_rows: str = shared_options.missing_rows_option()
    seed: int = shared_options.seed_option()

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Return the request with its defaults: a row to complete is sampled once unless --count is typed."""
        return replace(self, count=1) if self.given is not None and "count" not in typed_options else self


@click.command("sample", cls=Command)
@click.argument("model", metavar="[MODEL]", default="-", required=False)
@command_with_request(Request, threads_option, checkpoint_options, csv_output_options)
def command(session: Session, request: Request) -> None:
    """Draw new rows from a model, or fill in the unknown entries of given rows.

    \b
      herd data digits | herd fit-rbm --hidden 50 | herd sample -m 20 --burn-in 500 -o samples.csv
      herd data digits | herd fit-rbm --per-class | herd sample -m 5 --means -o digits.npz
      herd sample model.h5 --given torn.csv -m 10 -o whole.csv

    MODEL is an rbm, dbn, mixture, factors, hmm, lds, rtrbm or network (also UAI, .fg and BIF text).  In the resulting
    data set, y is the class if there is one model per class, the component of a mixture, or the state of an hmm.
    A result of herd herd has no distribution to draw from: its last pseudo-samples are written.

    The rows are independent if a network has a small junction tree, or an rbm a layer with few enough states to compute
    all probabilities.  Otherwise, or with --burn-in or --chains for an rbm, they come from (blocked) Gibbs chains.

    With --given FILE, the known entries of each row stay fixed and the others are drawn, --count times (default: once).
    """
    from herdcli.cli.frame.output import outputs
    from herdcli.cli.network.sample_models import load_model_to_sample

    outputs.check_artifact_output(session, "dataset")
    fitted = load_model_to_sample(session, request.model)
    if fitted.kind not in ("hmm", "lds", "rtrbm"):
        session.warn_of_ignored_option("steps", f"with a model of kind {fitted.kind}")
    if request.burn_in is None and not KINDS[fitted.kind].harmonium:
        session.request = request = replace(request, burn_in=BURN_IN.get(fitted.kind, 1000))
    result, summary = import_by_path(str(KINDS[fitted.kind].sample))(session, fitted, request)
    named_states = session.recoding is not None and session.recoding.codes
    states = session.recoding if fitted.kind == "network" or named_states else None
    outputs.write_artifact(session, result, summary, history=fitted, recoding=states)


def sample_rbm(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return rows sampled from an rbm, or from the highest layer of a dbn, whose rows the layers below turn into visible rows."""
    from herdcli.cli.small.rows_to_complete import load_rows_to_complete
    from herdcli.cli.small.sampled_rows import dataset_of_samples, sample_models
    from herdcli.cli.small.state_names import decode_softmax_columns
    from herdcli.errors import BadUsage
    from herdcli.rbm.layers import model_layers
    from herdcli.rbm.normalizability import require_normalisable
    from herdcli.rbm.sampling.gibbs_samples import SamplingProblem
    from herdcli.rbm.units import unit_family

    *below, top = model_layers(fitted.value)
    if unit_family([*below, top][0].visible_units).multinomial:
        raise BadUsage(
            "cannot sample from a model of words: it has no distribution of row lengths",
            hint="for its hidden units use: herd apply --want features",
        )
    models, lower = tuple(top.harmoniums()), tuple(layer.harmonium() for layer in reversed(below))
    for h in models:
        require_normalisable(h)
    held = None
    if request.given is not None:
        held = load_rows_to_complete(session, top, request.given, request.mask, count=request.count, is_single_model=not below)
    of_given = {"given": None} if held is None else {"given": held, "count": len(held), "chains": 0}
    asked, swept = request.burn_in or request.chains, replace(request, burn_in=request.burn_in or 1000)
    rows, how = sample_models(
        session, settings_from_request(SamplingProblem, swept, models=models, below=lower, **of_given), chains=bool(asked)
    )
    lowest = [*below, top][0]
    result = dataset_of_samples(lowest, rows, means=request.means)
    if not request.means:
        result, states = decode_softmax_columns(result, lowest.visible_units, session.recoding)
        session.recoding = states or session.recoding
    return result, f"{len(result.X)} rows × {result.X.shape[1]} columns, {how}"
