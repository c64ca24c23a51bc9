"""Shell completion after `herd COMMAND`: files for arguments and options that name files, and the known values of other options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
FILES = ("FILE", "MODEL", "DATA", "SHARD", "ARTIFACT", "INPUT", "NETWORK", "TABLE")
TARGETS = ("uniform", "gaussian", "mixture:", "trigonometric:", "signs:", "moments:")


def unit_choices() -> Sequence[str]:
    """Return the names of the unit families, with a colon where a number follows."""
    from herdcli.rbm.units import TABLE

    return [f"{name}:" if entry.number else name for name, entry in TABLE.items()]


def kernel_choices() -> Sequence[str]:
    """Return the names of the kernels."""
    from herdcli.quadrature.kernels.kernel_parsing import FACTORIES

    return [f"{name}:2" if name == "polynomial" else name for name in FACTORIES] + ["features:x", "features:x+xx"]


WORDS: dict[str, Callable[[], Sequence[str]]] = {
    "units": unit_choices,
    "visible_units": unit_choices,
    "hidden_units": unit_choices,
    "kernel": kernel_choices,
    "target": lambda: TARGETS,
}


def complete_files(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave the completion of file names to the shell."""
    return [CompletionItem(incomplete, type="file")]


def make_word_completer(words: Callable[[], Sequence[str]]) -> Completer:
    """Return a completer that offers the known words that begin with the typed text."""
    return lambda context, param, incomplete: [CompletionItem(word) for word in words() if word.startswith(incomplete)]


def with_completion(command: click.Command) -> click.Command:
    """Return the command with completion added to its free-text parameters."""
    for param in command.params:
        if isinstance(param.type, click.Choice) or param._custom_shell_complete is not None:
            continue
        if param.name in WORDS:
            param._custom_shell_complete = make_word_completer(WORDS[param.name])
        elif _names_a_file(param):
            param._custom_shell_complete = complete_files
    return command


def _names_a_file(param: click.Parameter) -> bool:
    text = isinstance(param.type, (click.types.StringParamType, click.Path))
    return text and (isinstance(param, click.Argument) or str(param.metavar or "").startswith(FILES))
