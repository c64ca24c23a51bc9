"""Options that had other names in version 0.1: the old name still works in the same command, with a line that names the new one.

Each name had two meanings, one in the command listed here and one in another.  Histories keep the keys that they have always had.
"""

from __future__ import annotations

from collections.abc import Sequence

FORMER_NAMES: dict[str, dict[str, str]] = {  # command: old name: new name
    "apply": {"--explain": "--explain-row"},
    "convert": {"--keep": "--keep-column"},
    "em": {"--restarts": "--starts"},
    "eval": {"--target": "--distribution", "--trace": "--curve"},
    "fit-mrf": {"--features": "--feature-clusters", "--penalty": "--l2"},
    "fit-rbm": {"--steps": "--gibbs-steps"},
    "herd": {"--keep": "--keep-last", "--moments": "--from-moments"},
    "ica": {"--rates": "--rate-schedule", "--steps": "--proposals"},
    "kernel-herd": {"--report": "--thinning-report", "--target": "--distribution", "--weights": "--atom-weights"},
    "merge": {"--data": "--calibration-data", "--rule": "--combine"},
    "network": {
        "--columns": "--grid-columns",
        "--degree": "--mean-degree",
        "--evidence": "--observations",
        "--observe": "--draw-observed",
        "--rows": "--grid-rows",
    },
    "regress": {"--restarts": "--starts"},
    "sample": {"--mask": "--given-mask", "--steps": "--length"},
    "ups-infer": {"--likelihood": "--soft-evidence"},
}


def replace_former_names(command: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command line with present names in the place of former ones, and a line of advice for each former name."""
    former = FORMER_NAMES.get(command, {})
    present: list[str] = []
    advice: list[str] = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word == "--":
            return [*present, *words[place:]], advice
        if name in former:
            advice.append(f"{name} is called {former[name]} now")
            word = former[name] + equals + value
        present.append(word)
    return present, list(dict.fromkeys(advice))
