"""How much of the options that functions are handed they read, counted in real runs: the table of results/settings-use.md.

    python scripts checks/settings_use > results/settings-use.md
    python scripts checks/settings_use --list learning_rate     the functions that read less than half of what brings them this option
    python scripts checks/settings_use --list all --only ica    those of the runs of one command, for all options

Each run is a command in this process, watched by `sys.setprofile`. A function is reached by an option if it is handed its value, under
its name, or an object with a field for it: the command's request, or a dataclass of settings, that is one without arrays of which at
least half of the fields, and three, are options of the command. Its own methods are not handed the object. A function reads a field in
its own body, through a method or property of the object, or in a function that it hands the object on to; the last column counts its own
body alone. What a function reads is joined over all runs, so that a branch counts if one of the runs takes it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

from checks.golden_runs import PREPARATION

import herdcli

PACKAGE = str(Path(herdcli.__file__).parent)
WORST = ("learning_rate", "kernel", "algorithm", "normalize")  # the options that were handed to most functions
LEAST_FIELDS = 3
PLAIN = (bool, int, float, str, tuple, type(None))
Function = tuple[str, str]  # module's path below herdcli, qualified name

# runs of under two seconds on the files of PREPARATION; together they take most branches of the commands
RUNS = """
fit-rbm few.h5 --hidden 6 --epochs 2
fit-rbm few.h5 --hidden 6 --epochs 2 --algorithm pcd --track-likelihood --validate-every 1 --patience 1
fit-rbm few.h5 --hidden 6 --epochs 2 --visible-units gaussian --standardize --learn-variances
fit-rbm few.h5 --hidden 4 --epochs 1 --per-class --folds 2
fit-rbm few.h5 --layers 6,3 --epochs 2
fit-rbm few.h5 --hidden 4 --epochs 2 --recurrent --split .6,.2,.2
fit-rbm few.h5 --hidden auto --epochs 2
fit-rbm few.h5 --hidden 6 --epochs 2 --labels generative
herd few.h5 --hidden 6 --iterations 40
herd few.h5 --model mrf --iterations 40
herd few.h5 --per-class --hidden 4 --iterations 20
herd binary.csv --features x,xx --model mrf --iterations 40
nherd-train rows.svm
nherd-train rows.svm --normalize l2 --passes 3 --algorithm arow
nherd-train rows.svm --covariance full --C 1
nherd-train binary.csv --label d --kernel gaussian --passes 2 --normalize l2
nherd-train few.h5 --parts 2
nherd-train few.h5 --algorithm scw1 --rounds 2 --parts 2
kernel-herd points.csv -m 12
kernel-herd points.csv -m 6 --rule herding --kernel gaussian:0.5
kernel-herd few.h5 --by y -m 4
kernel-herd points.csv -m 6 --block-rows 15 --block-atoms 6
kernel-herd points.csv -m 6 --block-rows 15 --kernel gaussian:1
ups-infer grid.h5
ups-infer grid.h5 --algorithm bp --schedule residual --restarts 2
ups-infer grid.h5 --algorithm gibbs --burn-in 5 --sweeps 20
ups-infer grid.h5 --evidence-rows evidence.csv
ups-infer grid.h5 --algorithm mean-field --evidence x0=1
fit-mrf binary.csv --smoothing 1
fit-mrf binary.csv --smoothing 1 --algorithm pseudo-likelihood
fit-mrf binary.csv --smoothing 1 --algorithm bayes
fit-mrf binary.csv --structure chow-liu --smoothing 1
ica sources.csv --rate-schedule 0.02x10 --algorithm infomax
ica sources.csv
ica sources.csv --algorithm fastica
ica sources.csv --algorithm ebm --filters 4 --leapfrog 3 --rate-schedule 0.01x10
ica sources.csv --algorithm sparse-coding --filters 4 --rate-schedule 0.1x3
ica sources.csv --one-pass
em points.csv --components 2
em sources.csv --model fa --components 1
em points.csv --model kmeans --components 3
em points.csv --model hmm --components 2 --iterations 3 --split .6,.2,.2
em points.csv --model lds --components 1 --iterations 3 --split .6,.2,.2
em points.csv --model gmm --components 1-2 --restarts 2
regress points.csv --target b
regress points.csv --target b --one-pass
regress points.csv --target b --hidden 3 --epochs 2
regress binary.csv --target d --family bernoulli --l2 0.1
convert few.h5 --split 5,2,2
convert few.h5 --subsample 2 --patches 2 --count 50
apply few.rbm.h5 few.h5
apply classes.rbm.h5 few.h5
eval few.rbm.h5 --temperatures 100
eval points.samples.h5
sample few.rbm.h5 --count 3 --burn-in 20
network grid --grid-rows 3 --grid-columns 3
"""


class Watch:
    """What functions were handed and what they read, of the objects that hold options."""

    def __init__(self) -> None:
        self.options: frozenset[str] = frozenset()  # of the command that runs
        self.request: type = type(None)
        self.handed: dict[Function, set[type]] = defaultdict(set)
        self.bare: dict[Function, set[str]] = defaultdict(set)
        self.read: dict[tuple[Function, type], set[str]] = defaultdict(set)
        self.own: dict[tuple[Function, type], set[str]] = defaultdict(set)
        self.fields: dict[type, frozenset[str]] = {}  # of classes that hold options
        self.others: set[tuple[type, type]] = set()  # class, request: no options of this command
        self.functions: dict[CodeType, Function | None] = {}

    def function(self, code: CodeType) -> Function | None:
        """The function of herdcli that code belongs to: for a nested function or a lambda the one around it."""
        if code not in self.functions:
            inside = code.co_filename.startswith(PACKAGE)
            name = (code.co_filename[len(PACKAGE) + 1 :], code.co_qualname.split(".<locals>")[0])
            self.functions[code] = name if inside and not name[1].startswith("<") else None
        return self.functions[code]

    def holds_options(self, value: object) -> bool:
        """Whether an object holds options of the command that runs; if so, reads of its class's fields are recorded from now on."""
        kind = type(value)
        if kind in self.fields:
            return True
        if (kind, self.request) in self.others or not dataclasses.is_dataclass(kind):
            return False
        names = frozenset(each.name for each in dataclasses.fields(kind))
        shared = len(names & self.options)
        plain_fields = not any(hasattr(getattr(value, name, None), "shape") for name in names)
        if not issubclass(kind, self.request) and (not plain_fields or shared < LEAST_FIELDS or 2 * shared < len(names)):
            self.others.add((kind, self.request))
            return False
        self.fields[kind] = names
        watch, plain = self, kind.__getattribute__

        def recorded(self: object, name: str) -> object:
            if name in names and type(self) is kind:
                watch.note(self, name, sys._getframe(1))
            return plain(self, name)

        kind.__getattribute__ = recorded  # type: ignore[method-assign, assignment]
        return True

    def note(self, holder: object, name: str, frame: FrameType | None) -> None:
        """Record that a field was read, for the function that did and for those on the stack that were handed such an object."""
        kind, nearest = type(holder), True
        while frame is not None:
            function = self.function(frame.f_code)
            if function is not None and kind in self.handed.get(function, ()):
                self.read[function, kind].add(name)
                if nearest:
                    self.own[function, kind].add(name)
            code = frame.f_code
            is_method = code.co_argcount > 0 and frame.f_locals.get(code.co_varnames[0]) is holder and code.co_varnames[0] == "self"
            nearest = nearest and (function is None or is_method)
            frame = frame.f_back

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """The profile function: records the objects with options that a function is handed."""
        if event != "call":
            return
        code = frame.f_code
        function = self.function(code)
        if function is None or "<locals>" in code.co_qualname:
            return
        count = code.co_argcount + code.co_kwonlyargcount
        values = frame.f_locals
        for name in code.co_varnames[:count]:
            if name in ("self", "cls") or name not in values:
                continue
            if self.holds_options(values[name]):
                self.handed[function].add(type(values[name]))
            elif name in self.options and isinstance(values[name], PLAIN):
                self.bare[function].add(name)


def command_parts(line: str) -> tuple[type, list[str]]:
    """The request's class and the words of a run."""
    from herdcli.cli.main import COMMANDS

    words = shlex.split(line)
    command = import_module(COMMANDS[words[0]][0]).command
    if hasattr(command, "commands"):
        command = command.commands[words[1]]
    return command.callback.request, words


def run(line: str, watch: Watch) -> None:
    """Run a command in this process under a watch; ends with its exit code if it fails."""
    from herdcli.cli.main import main

    watch.request, words = command_parts(line)
    watch.options = frozenset(each.name for each in dataclasses.fields(watch.request))
    output = [] if words[0] == "eval" else ["-o", f"OUT{len(watch.functions)}.h5"]
    errors = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(errors):
        sys.setprofile(watch)
        try:
            main([*words, *output])
        except SystemExit as end:
            code = end.code
        else:
            code = 0
        finally:
            sys.setprofile(None)
    if code:
        errors.flush()
        error_text = errors.buffer.getvalue().decode()
        sys.exit(f"herd {line}: exit code {code}\n{error_text}")


def functions_with_value(watch: Watch, option: str) -> set[Function]:
    """The functions that are handed an option's value, and no object with it."""
    handed = {function for function, kinds in watch.handed.items() if any(option in watch.fields[kind] for kind in kinds)}
    return {function for function, names in watch.bare.items() if option in names} - handed


def reached(watch: Watch, option: str) -> Iterator[tuple[Function, type, bool, bool]]:
    """The functions that an option reaches; the class of those it comes in of which they read least; whether they read half, and alone."""
    for function, kinds in watch.handed.items():
        found = [kind for kind in kinds if option in watch.fields[kind]]
        if found:
            least = min(found, key=lambda kind: share(watch.read[function, kind], watch.fields[kind]))
            alone = min(share(watch.own[function, kind], watch.fields[kind]) for kind in found)
            yield function, least, share(watch.read[function, least], watch.fields[least]) >= 0.5, alone >= 0.5


def share(read: set[str], fields: frozenset[str]) -> float:
    """The share of fields that were read."""
    return len(read & fields) / len(fields)


def print_table(watch: Watch) -> None:
    """Print the options by the number of functions that they reach."""
    options = sorted(frozenset().union(*watch.fields.values()))
    counts = {option: list(reached(watch, option)) for option in options}
    bare = {option: len(functions_with_value(watch, option)) for option in options}
    total = {option: len(counts[option]) + bare[option] for option in options if counts[option]}
    print("| option | functions reached | by its value | read less than half | share | by themselves |\n|---|---|---|---|---|---|")
    rows = [(sum(not half for *_, half, _ in counts[name]), sum(not half for *_, half in counts[name])) for name in total]
    for name, (few, alone) in sorted(zip(total, rows, strict=True), key=lambda row: (row[0] not in WORST, -total[row[0]], row[0])):
        print(f"| `{name}` | {total[name]} | {bare[name]} | {few} | {few / total[name]:.0%} | {alone} |")
    every = sum(total.values())
    few, alone = (sum(row[n] for row in rows) for n in (0, 1))
    print(f"| all | {every} | {sum(bare[name] for name in total)} | {few} | {few / every:.0%} | {alone} |")


def print_functions(watch: Watch, option: str) -> None:
    """Print the functions that read less than half of the object that brings them an option, or any option."""
    for name in sorted(frozenset().union(*watch.fields.values())) if option == "all" else [option]:
        for (module, function), kind, half, _ in sorted(reached(watch, name), key=str):
            if not half:
                fields = sorted(watch.read[(module, function), kind])
                line = f"{module}: {function}: {len(fields)} of {len(watch.fields[kind])} of {kind.__module__}.{kind.__name__}"
                print(f"{line}: {', '.join(fields)}")


def main() -> None:
    """Run the commands, and print the table or the functions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", metavar="OPTION", help="list the functions that read less than half, for an option or all")
    parser.add_argument("--only", default="", metavar="TEXT", help="only runs whose line starts with this text")
    arguments = parser.parse_args()
    watch = Watch()
    os.environ["HERD_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["bash", "-ec", PREPARATION], check=True, env=os.environ | {"PATH": path})
        for line in RUNS.strip().splitlines():
            if line.startswith(arguments.only):
                run(line, watch)
    if arguments.list:
        print_functions(watch, arguments.list)
    else:
        explanation = (__doc__ or "").split("\n\n")[2].strip()
        print(f"# How much of the options that functions are handed they read\n\n{explanation}\n")
        print_table(watch)


if __name__ == "__main__":
    main()
