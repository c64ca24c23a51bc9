"""herd completion: the shell's completion script, made by click."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.run.console import write_stdout


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script with which the shell completes commands, options and values of herd.

    \b
      herd completion bash > herd.bash
      source herd.bash

    For zsh, put the output into a file _herd on your $fpath; for fish, into
    ~/.config/fish/completions/herd.fish.
    """
    from herdcli.cli.main import cli

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for '{shell}'")
    write_stdout(found(cli, {}, "herd", "_HERD_COMPLETE").source() + "\n")
