"""The table of commands, in the order of `herd --help`.  A new command is a package of `cli` and one line here."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """One line of the table.

    module   the module with the click command, which is named `command`; imported when the command runs.
    summary  one line for the listing.
    python   how the command is called as a function: with rows and labels (learn), with artifacts and files (compute), or not at all.
    """

    module: str
    summary: str
    python: str = ""


TABLE: dict[str, CommandEntry] = {
    "fit-rbm": CommandEntry("herdcli.cli.fit_rbm.command", "Fit restricted Boltzmann machines and deep belief networks.", "learn"),
    "herd": CommandEntry("herdcli.cli.herd.command", "Generate samples that match the data's averages, without random numbers.", "learn"),
    "nherd-train": CommandEntry("herdcli.cli.nherd_train.command", "Train a classifier or a regression on a stream of examples.", "learn"),
    "merge": CommandEntry("herdcli.cli.small.merge", "Join the shards of a run, or combine several classifiers.", "compute"),
    "kernel-herd": CommandEntry(
        "herdcli.cli.kernel_herd.command", "Choose a few weighted points that represent a data set or a density.", "learn"
    ),
    "network": CommandEntry("herdcli.cli.network.command", "Make, convert and describe Markov and Bayesian networks.", "compute"),
    "ups-infer": CommandEntry("herdcli.cli.ups_infer.command", "Compute probabilities or most probable states in a network.", "compute"),
    "fit-mrf": CommandEntry("herdcli.cli.fit_mrf.command", "Learn a Markov or Bayesian network from data.", "learn"),
    "ica": CommandEntry("herdcli.cli.ica.command", "Separate independent sources, or learn sparse filters.", "learn"),
    "em": CommandEntry("herdcli.cli.em.command", "Fit mixtures, k-means, factor models and time-series models.", "learn"),
    "regress": CommandEntry("herdcli.cli.regress.command", "Fit generalised linear models and multilayer perceptrons.", "learn"),
    "eval": CommandEntry("herdcli.cli.eval.command", "Evaluate results: figures, baselines and a verdict.", "compute"),
    "cv": CommandEntry("herdcli.cli.cv.command", "Cross-validate a fitting command."),
    "apply": CommandEntry("herdcli.cli.apply.command", "Apply a model to new rows: classes, features, filled gaps.", "compute"),
    "sample": CommandEntry("herdcli.cli.small.sample", "Draw new rows from a model, or fill gaps with draws.", "compute"),
    "convert": CommandEntry("herdcli.cli.convert.command", "Convert data sets and models to other formats.", "learn"),
    "data": CommandEntry(
        "herdcli.cli.data.command",
        "Write the digits that ship with herd, or download a data set.",
        "compute",
    ),
    "info": CommandEntry("herdcli.cli.small.info", "Show what a file contains and how it was made."),
    "check": CommandEntry("herdcli.cli.small.check", "Verify that files are undamaged and valid."),
    "seal": CommandEntry("herdcli.cli.small.seal", "Renew the checksum of a file that you edited."),
    "selftest": CommandEntry("herdcli.cli.small.selftest", "Test this installation against known answers."),
    "completion": CommandEntry("herdcli.cli.small.completion", "Print the completion script of a shell."),
}


def python_names(call_style: str) -> tuple[str, ...]:
    """Return the names of the commands that are called in one way as Python functions."""
    return tuple(name.replace("-", "_") for name, entry in TABLE.items() if entry.python == call_style)
