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
    "fit-rbm": CommandEntry("herdcli.cli.fit_rbm.command", "Learn restricted Boltzmann machines by contrastive divergence.", "learn"),
    "herd": CommandEntry(
        "herdcli.cli.herd.command", "Herd: deterministic weights and pseudo-samples that match the data's moments.", "learn"
    ),
    "nherd-train": CommandEntry(
        "herdcli.cli.nherd_train.command", "Learn a linear or kernel classifier from a stream: NHERD, AROW, CW, PA and kin.", "learn"
    ),
    "merge": CommandEntry("herdcli.cli.small.merge", "Join the shards of a run, or make one classifier of several.", "compute"),
    "kernel-herd": CommandEntry(
        "herdcli.cli.kernel_herd.command", "Choose a few weighted points that represent a data set or a density.", "learn"
    ),
    "network": CommandEntry(
        "herdcli.cli.network.command", "Make Markov networks: lattices, trees, random graphs; change their format.", "compute"
    ),
    "ups-infer": CommandEntry(
        "herdcli.cli.ups_infer.command", "Infer marginals and log Z of a Markov network, exactly or by Bethe free energies.", "compute"
    ),
    "fit-mrf": CommandEntry(
        "herdcli.cli.fit_mrf.command", "Learn a Markov network from data or marginals, exactly or by Bethe free energies.", "learn"
    ),
    "ica": CommandEntry(
        "herdcli.cli.ica.command", "Find independent components: InfoMax, maximum likelihood, energy-based models, sparse coding.", "learn"
    ),
    "em": CommandEntry(
        "herdcli.cli.em.command", "Find clusters and factors by EM: Gaussian mixtures, k-means, factor analysis, PCA.", "learn"
    ),
    "regress": CommandEntry(
        "herdcli.cli.regress.command", "Fit generalised linear models: least squares, logistic, Poisson, gamma, softmax.", "learn"
    ),
    "eval": CommandEntry("herdcli.cli.eval.command", "Say how good a result is: one row of figures per artifact.", "compute"),
    "cv": CommandEntry("herdcli.cli.cv.command", "Cross-validate a fitting command: K fits, tested on rows they have not seen."),
    "apply": CommandEntry("herdcli.cli.apply.command", "Run new rows through a model: features, energies, classes.", "compute"),
    "sample": CommandEntry("herdcli.cli.small.sample", "Draw rows from a model by Gibbs sampling.", "compute"),
    "convert": CommandEntry("herdcli.cli.convert.command", "Change a data set's format; take models to and from other programs.", "learn"),
    "data": CommandEntry(
        "herdcli.cli.data.command",
        "Write a data set: digits, which ships with herd, or one of the papers', downloaded once.",
        "compute",
    ),
    "info": CommandEntry("herdcli.cli.small.info", "Show what an artifact holds and how it was made."),
    "check": CommandEntry("herdcli.cli.small.check", "Verify seals and contents; silent when all is well."),
    "seal": CommandEntry("herdcli.cli.small.seal", "Seal a file that was edited on purpose."),
    "selftest": CommandEntry("herdcli.cli.small.selftest", "Check known answers on this machine."),
    "completion": CommandEntry("herdcli.cli.small.completion", "Print the completion script of a shell."),
}


def python_names(call_style: str) -> tuple[str, ...]:
    """Return the names of the commands that are called in one way as Python functions."""
    return tuple(name.replace("-", "_") for name, entry in TABLE.items() if entry.python == call_style)
