"""`--options FILE.toml`: options of a command line, kept in a file.

    seed = 3                  # for every command that is given this file
    [fit-rbm]                 # for this command
    hidden = 100
    learning-rate = 0.05      # --learning-rate 0.05
    centering = false         # --no-centering
    plot = [["filters", "filters.svg"], ["trace", "trace.svg"]]

The words of the file come before those that were typed, so a typed value replaces the file's.  An option that may be repeated has both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from herdcli.errors import BadUsage, DataError, NoInput, nearest_name

NAME = "--options"


def expand_options_files(command: click.Command, commands: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the words of a command line after those of the files that --options names in it.

    commands  the names of all commands, which the file may have tables for.
    Raises NoInput, DataError or BadUsage for a file that is missing, is not TOML, or has options that the command lacks.
    """
    found = [word for path in _options_file_paths(words) for word in _words_of_file(path, command, commands)]
    return [*found, *words]


def _options_file_paths(words: Sequence[str]) -> Iterator[str]:
    """Yield the values of --options."""
    for place, word in enumerate(words):
        if word == "--":
            return
        if word == NAME and place + 1 < len(words):
            yield words[place + 1]
        elif word.startswith(f"{NAME}="):
            yield word.removeprefix(f"{NAME}=")


def _words_of_file(path: str, command: click.Command, commands: Sequence[str]) -> Iterator[str]:
    """Yield the words that a file stands for: its own, then those of the command's table."""
    content = _read_toml(path)
    own = str(command.name)
    tables = {name: value for name, value in content.items() if isinstance(value, dict)}
    for name in tables:
        if name not in commands:
            raise BadUsage(
                f"[{name}] is not a command", where=path, hint=_nearest_name_hint(name, commands) or "'herd --help' lists the commands"
            )
    for values in ({name: value for name, value in content.items() if name not in tables}, tables.get(own, {})):
        for name, value in values.items():
            yield from _option_words(path, command, name, value)


def _read_toml(path: str) -> dict[str, object]:
    import tomllib

    if path == "-":
        raise BadUsage(f"{NAME} needs the name of a file", hint=f"{NAME} FILE.toml; ./- is a file that is called -")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise NoInput("there is no such file", where=path) from None
    except OSError as error:
        raise NoInput(f"cannot be read ({error.strerror})", where=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"is not TOML: {error}", where=path, hint="a line for each option, such as: hidden = 100") from None


def _option_words(path: str, command: click.Command, name: str, value: object) -> Iterator[str]:
    """Yield the words of one option."""
    options = {text: each for each in command.params if isinstance(each, click.Option) for text in each.opts if text.startswith("--")}
    text = f"--{name.replace('_', '-')}"
    option = options.get(text)
    if text == NAME:
        raise BadUsage("options: an options file cannot name another options file", where=path)
    if option is None:
        hint = _nearest_name_hint(text, options) or f"'herd {command.name} --help' lists the options"
        raise BadUsage(f"{name}: herd {command.name} has no option {text}", where=path, hint=hint)
    if option.is_flag or isinstance(value, bool):
        yield from _flag_words(path, option, text, value)
        return
    several = value if isinstance(value, list) and (option.multiple or option.nargs > 1) else [value]
    for each in several if option.multiple else [several if option.nargs > 1 else value]:
        if option.nargs > 1:
            if not isinstance(each, list) or len(each) != option.nargs:
                raise DataError(f"{name}: the value must be a list of {option.nargs} values", where=path)
            yield from (text, *(_value_text(path, name, item) for item in each))
        else:
            joined = ",".join(_value_text(path, name, item) for item in each) if isinstance(each, list) else _value_text(path, name, each)
            yield f"{text}={joined}"


def _flag_words(path: str, option: click.Option, text: str, value: object) -> Iterator[str]:
    """Yield the word that switches a flag on or off; nothing for one that is off unless it is typed."""
    if not isinstance(value, bool):
        raise DataError(f"{text[2:]}: the value must be true or false, not {value!r}", where=path)
    if not option.is_flag:
        raise DataError(f"{text[2:]}: this option needs a value, not {str(value).lower()}", where=path)
    yield from [text] if value else option.secondary_opts[:1]


def _value_text(path: str, name: str, value: object) -> str:
    """Return a text or a number as it is typed."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{name}: the value must be a text, a number, true, false, or a list of texts or numbers", where=path)


def _nearest_name_hint(name: str, known: Sequence[str] | Mapping[str, object]) -> str | None:
    """Return the hint that names the nearest of the known names, if one is near."""
    close = nearest_name(name, known)
    return f"did you mean {close}?" if close else None
