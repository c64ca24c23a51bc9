"""Help that fits a screen: --help shows the most important options in groups, --help-all the whole help."""

from __future__ import annotations

import re

import click

from herdcli.cli.frame.options.declaration import DeclaredOption
from herdcli.cli.frame.options.former_names import replace_former_names
from herdcli.cli.frame.options.options_file import expand_options_files
from herdcli.cli.frame.options.short_help import format_short_help_page
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
# the most important options of commands with many options
FIRST: dict[str, str] = {
    "fit-rbm": "hidden per_class layers visible_units standardize algorithm epochs learning_rate value_range threshold threads",
    "herd": "model hidden iterations per_class value_range threshold keep threads plots",
    "nherd-train": "task algorithm C covariance kernel passes text model positive classes",
    "kernel-herd": "count rule kernel target by scale threads weights",
    "network": "rows columns nodes degree sigma_w sigma_b observe evidence steps format",
    "ups-infer": "algorithm evidence likelihood query tolerance iterations damping format",
    "fit-mrf": "structure edges clusters algorithm smoothing tolerance iterations value_range threshold format",
    "ica": "algorithm components filters density expert iterations mixing threads",
    "em": "model components criterion covariance restarts iterations per_class sequence weights threads",
    "regress": "target family offset weights trials exposure hidden l2 l1 penalty iterations threads",
    "eval": "format explain requirements data likelihood plots report confusion reference target gallery title size threads",
    "cv": "folds requirements format threads no_clobber",
    "apply": "want sequence explain input_format threads value_range",
    "sample": "count burn_in chains thin means given mask steps threads",
    "convert": "format to transpose patches segments count log subsample binarize keep hold_outs value_range",
    "data": "accept_licence where all_sets list_sets no_clobber quiet",
    "check": "seal_only rerun inputs max_time max_disk threads quiet",
    "merge": "rule data no_clobber safe_csv quiet",
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
    if command == "network" and found == "Learning":
        return "Model"
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
        args = expand_options_files(self, list(TABLE), args)
        args, ctx.meta["herd.advice"] = replace_former_names(str(self.name), args)
        ctx.meta["herd.typed"] = list(args)
        return super().parse_args(ctx, args)

    @property
    def has_short_help(self) -> bool:
        """Whether --help shows the main options only, and --help-all everything."""
        return str(self.name) in FIRST

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; a command with many options has --help-all before --help."""
        found = super().get_params(ctx)
        if not self.has_short_help:
            return found
        more = click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_full_help, help="Show all options and exit."
        )
        return [*found[:-1], more, found[-1]]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole help; of a command with many options, without --help-all, one screen with the most important ones."""
        if not self.has_short_help or ctx.meta.get("herd.help_all"):
            super().format_help(ctx, formatter)
            return
        shown = set(FIRST[str(self.name)].split()) | ALWAYS
        whole = self._options_by_heading(ctx)
        records = {group: [row for row in rows if row[0].partition(".")[2] in shown] for group, rows in whole.items()}
        more = sum(map(len, whole.values())) - sum(map(len, records.values()))
        usage = f"Usage: {ctx.command_path} {' '.join(self.collect_usage_pieces(ctx))}"
        closing = f"{more} more options: herd {self.name} --help-all"
        formatter.write(format_short_help_page(usage, self.help or "", records, closing, formatter.width))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        for group, rows in self._options_by_heading(ctx).items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl([(spelling, text) for _, spelling, text in rows])

    def _options_by_heading(self, ctx: click.Context) -> dict[str, list[tuple[str, str, str]]]:
        """Return COMMAND.PARAMETER, spelling and help of the options by their headings."""
        records: dict[str, list[tuple[str, str, str]]] = {group: [] for group in GROUPS}
        for param in self.get_params(ctx):
            found = help_record(param, ctx) if isinstance(param, click.Option) else None
            if found is not None:
                name = _parameter_name(param)
                records[option_heading(name, str(self.name), param)].append((f"{self.name}.{name}", *found))
        return records
