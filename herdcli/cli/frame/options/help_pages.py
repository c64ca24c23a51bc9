"""Help that fits a screen: --help shows the most important options in groups, --help-all shows all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from herdcli.cli.frame.options.declaration import DeclaredOption
from herdcli.cli.frame.options.former_names import with_present_names
from herdcli.cli.frame.options.options_file import with_options_files
from herdcli.command_table import TABLE


def _parse_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


INPUT = _parse_names(
    "label input_format missing categorical layer value_range threshold split data target row_weight weights offset by keep evidence "
    "observe evidence_rows moments values regions extend below reference mixing true_sources gallery probes probe_sets gallery_images "
    "weight_kind trials failures exposure zero_based skip_bad only positive classes max_classes on_disk block_rows hold_outs"
)
LEARNING = _parse_names(
    "algorithm steps chains epochs batch_size learning_rate rate_decay momentum weight_decay bias_rate l1_decay initial_scale mean_field "
    "centering non_negative sparsity_target sparsity_cost fast_rate fast_decay folds average_scores iterations tolerance restarts patience "
    "damping damping_schedule damping_kind schedule passes shuffle sweeps burn_in step_sizes step_size leapfrog acceptance rates average "
    "gamma_rate on_nonconvergence minibatch seed annealing double_loop always_update holdout early_stop l1 l2 floor refine polish init "
    "penalty"
)
LONG = _parse_names("threads shard cluster cluster_options retries mixed checkpoint every resume dry_run max_memory lock trace_file")
OUTPUT = _parse_names("output no_clobber safe_csv quiet verbose debug format plots report requirements help help_all no_state want")
COMMON = (  # options that many commands share, in the order in which every help lists them
    *(
        "weights_column",
        "input_format",
        "missing_rows",
        "thousands",
        "decimal",
        "percent",
        "currency",
        "encoding",
        "missing",
        "categorical",
    ),
    *("layer", "read_columns", "drop_columns", "split_column", "label", "value_range", "threshold", "split", "seed", "threads", "exact"),
    *("shard", "cluster", "cluster_options", "retries", "mixed", "checkpoint", "every", "resume", "trace_file", "dry_run"),
    *("options_file", "output", "no_clobber", "safe_csv", "lock", "quiet", "verbose", "debug", "max_memory"),
)
GROUPS = ("Input", "Model", "Learning", "Inference", "Options", "Long runs", "Output")
PLAIN = _parse_names(
    "apply check completion convert data eval info merge sample seal selftest"
)  # commands that neither create nor fit a model
ALWAYS = _parse_names("label split seed output checkpoint resume dry_run missing help help_all")
MOST_SHOWN = 24  # a command with at most this many options shows all of them

# the most important options of commands with many options
FIRST: dict[str, str] = {
    "fit-rbm": "hidden per_class layers visible_units standardize algorithm epochs learning_rate value_range threshold threads",
    "herd": "model hidden iterations per_class value_range threshold keep threads",
    "nherd-train": "algorithm C loss covariance kernel passes shuffle model positive classes",
    "kernel-herd": "count rule kernel bandwidth weights target by unique scale threads",
    "ups-infer": "algorithm evidence likelihood tolerance iterations damping restarts format on_nonconvergence",
    "fit-mrf": "structure edges clusters algorithm smoothing tolerance iterations value_range threshold format",
    "ica": "algorithm components filters density expert iterations epochs mixing threads",
    "em": "model components criterion covariance restarts iterations per_class threads",
    "regress": "target family offset weights trials exposure hidden activation l2 l1 penalty iterations threads",
    "eval": "format requirements data likelihood chains temperatures plots report confusion reference target kernel gallery threads",
    "convert": "format to transpose patches segments count log keep value_range",
}
NUMBERS = {" INTEGER RANGE": " N", " FLOAT RANGE": " X", " INTEGER": " N", " FLOAT": " X"}
_LIMITS = re.compile(r"(?:;\s*)?(?:-?[\d.e+]+<=?)?x(?:<=?|>=?)?-?[\d.e+]*(?=\]|;)")


def help_record(param: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    """Return the spelling and the help of an option, without the type names and limits that click adds."""
    found = param.get_help_record(ctx)
    if found is None:
        return None
    spelling, text = found
    for theirs, ours in NUMBERS.items():
        spelling = spelling.replace(theirs, ours)
    if isinstance(param.type, (click.IntRange, click.FloatRange)):
        text = _LIMITS.sub("", text).replace("[; ", "[").replace("[]", "").rstrip()
    return spelling, text


def option_heading(name: str, command: str = "", param: click.Parameter | None = None) -> str:
    """Return the heading of an option in the help: the declared one, else the one for its name."""
    known = {"Input": INPUT, "Learning": LEARNING, "Long runs": LONG, "Output": OUTPUT}
    by_name = next((group for group, names in known.items() if name in names), "Model")
    found = param.group if isinstance(param, DeclaredOption) else by_name
    if command in PLAIN and found in ("Model", "Learning"):
        return "Options"
    return "Inference" if command == "ups-infer" and found == "Learning" else found


def _parameter_name(param: click.Parameter) -> str:
    return "help" if "--help" in param.opts else str(param.name)


def option_sort_key(param: click.Parameter) -> int:
    """Return the sort key of an option in its command: 0 for the command's own options, then the options that many commands share."""
    return COMMON.index(str(param.name)) + 1 if isinstance(param, click.Option) and param.name in COMMON else 0


def _show_full_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta["herd.help_all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


class Command(click.Command):
    """A command that accepts choices in any case and groups the options in --help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with choices in any case and former names of options."""
        for param in self.params:
            if isinstance(param.type, click.Choice):
                param.type.case_sensitive = False
        args = with_options_files(self, list(TABLE), args)
        args, ctx.meta["herd.advice"] = with_present_names(str(self.name), args)
        ctx.meta["herd.typed"] = list(args)
        return super().parse_args(ctx, args)

    @property
    def is_long(self) -> bool:
        """Whether the command has more options than --help shows."""
        return len(self.params) > MOST_SHOWN and str(self.name) in FIRST

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; a command with many options has --help-all before --help."""
        found = super().get_params(ctx)
        if not self.is_long:
            return found
        more = click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_full_help, help="Show all options and exit."
        )
        return [*found[:-1], more, found[-1]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups; a command with many options shows the most important ones and the number of the others."""
        shown = set(FIRST.get(str(self.name), "").split()) | ALWAYS
        whole = not self.is_long or bool(ctx.meta.get("herd.help_all"))
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        chosen = [param for param in options if whole or _parameter_name(param) in shown]
        self._write(ctx, formatter, chosen)
        if len(chosen) < len(options):
            formatter.write_paragraph()
            formatter.write_text(f"{len(options) - len(chosen)} more options: herd {self.name} --help-all")

    def _write(self, ctx: click.Context, formatter: click.HelpFormatter, options: Iterable[click.Option]) -> None:
        records: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for param in options:
            found = help_record(param, ctx)
            if found is not None:
                records[option_heading(_parameter_name(param), str(self.name), param)].append(found)
        for group, rows in records.items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)
