"""Digests of what herd writes, taken before a change that should not alter them and compared after it.

    python scripts/golden_outputs.py record before.json
    python scripts/golden_outputs.py compare before.json

Three sets of runs: the shell blocks of README and of the manual's pages, in order; and for each command a small base run, alone and
with every choice of every option and every flag that it has, so that an algorithm is covered the day it is added.  Recorded are the
exit code, stdout's digest, the digest of every file that a run wrote, and stderr without times.  Digests of floating-point
results hold on one machine with one set of libraries, so both runs are made on the same one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from forked import Forker  # noqa: E402

PAGES = ("README.md", "docs/guide.md", "docs/cookbook.md")
TIMES = re.compile(r"\b[\d.e+-]+ (?:s|ms|[kMG]?B)\b|about [\d.,]+|herd-traceback-\w+|^python: .*$", re.MULTILINE)

# command -> a run of under a second; the files it reads are made by PREPARATION
BASES: dict[str, str] = {
    "fit-rbm": "herd fit-rbm few.h5 --hidden 8 --epochs 2 -o OUT.h5",
    "fit-rbm layers": "herd fit-rbm few.h5 --layers 8,4 --epochs 2 -o OUT.h5",
    "herd": "herd herd few.h5 --hidden 6 --iterations 40 -o OUT.h5",
    "herd mrf": "herd herd few.h5 --model mrf --iterations 40 -o OUT.h5",
    "nherd-train": "herd nherd-train rows.svm -o OUT.h5",
    "kernel-herd": "herd kernel-herd points.csv -m 12 -o OUT.h5",
    "network grid": "herd network grid --rows 3 --columns 3 -o OUT.h5",
    "network tree": "herd network tree --nodes 9 -o OUT.h5",
    "network random": "herd network random --nodes 9 -o OUT.h5",
    "ups-infer": "herd ups-infer grid.h5 -o OUT.h5",
    "ups-infer text": "herd ups-infer grid.h5 -o OUT.mar",
    "fit-mrf": "herd fit-mrf binary.csv --smoothing 1 -o OUT.h5",
    "ica": "herd ica sources.csv --rates 0.02x40 -o OUT.h5",
    "ica ebm": "herd ica sources.csv --algorithm ebm --filters 4 --gamma-rate 0.1 --leapfrog 3 --rates 0.01x30 -o OUT.h5",
    "ica sparse-coding": "herd ica sources.csv --algorithm sparse-coding --filters 4 --rates 0.1x3 -o OUT.h5",
    "ica mixed": "herd ica sources.csv --mix instamix:0.4 --algorithm equil --rates 0.02x30 -o OUT.h5",
    "ica mixing": "herd ica sources.csv --mixing mixing.csv --components 50% --split .8,0,.2 -o OUT.h5",
    "em": "herd em points.csv --components 2 -o OUT.h5",
    "em factors": "herd em sources.csv --model fa --components 1 -o OUT.h5",
    "regress": "herd regress points.csv --target b -o OUT.h5",
    "em kmeans": "herd em points.csv --model kmeans --components 3 -o OUT.h5",
    "eval": "herd eval few.rbm.h5 -o OUT.json",
    "eval classes": "herd eval classes.rbm.h5 -o OUT.json",
    "eval samples": "herd eval points.samples.h5 -o OUT.json",
    "eval beliefs": "herd eval grid.beliefs.h5 -o OUT.json",
    "apply": "herd apply few.rbm.h5 few.h5 -o OUT.h5",
    "apply classes": "herd apply classes.rbm.h5 few.h5 -o OUT.csv",
    "sample": "herd sample few.rbm.h5 -o OUT.h5",
    "convert": "herd convert few.h5 -o OUT.h5",
    "convert pieces": "herd convert few.h5 --subsample 2 --mask mask.csv --patches 2 --count 50 -o OUT.h5",
    "convert split": "herd convert few.h5 --split 5,2,2 --mask ellipse:.9,.8 -o OUT.h5",
    "convert held out": "herd convert conditions.csv --keep light --hold-out light=2 --label who -o OUT.h5",
    "convert weights": "herd convert weights.npz --to rbm --units spin --range 0,16 -o OUT.h5",
    "data": "herd data digits -o OUT.h5",
    "selftest": "herd selftest --topic herding",
    "info": "herd info few.rbm.h5",
    "check": "herd check few.rbm.h5",
}
PREPARATION = r"""
herd data digits -q | herd convert - --split 20,5,5 -q -o few.h5
herd fit-rbm few.h5 --hidden 8 --epochs 2 -q -o few.rbm.h5
herd fit-rbm few.h5 --hidden 4 --epochs 1 --per-class -q -o classes.rbm.h5
python - <<'END'
import numpy as np
rng = np.random.default_rng(0)
points = rng.normal(size=(60, 2))
np.savetxt('points.csv', points, delimiter=',', header='a,b', comments='', fmt='%.6f')
np.savetxt('sources.csv', rng.laplace(size=(400, 3)) @ rng.normal(size=(3, 3)), delimiter=',', header='a,b,c', comments='', fmt='%.6f')
np.savetxt('binary.csv', (rng.random((80, 4)) < .5).astype(int), delimiter=',', header='a,b,c,d', comments='', fmt='%d')
np.savetxt('mixing.csv', rng.normal(size=(3, 3)), delimiter=',', header='a,b,c', comments='', fmt='%.6f')
names = ','.join('p%d' % i for i in range(16))
np.savetxt('mask.csv', (np.arange(16)[None] % 5 > 0).astype(int), delimiter=',', header=names, comments='', fmt='%d')
who, light = np.arange(40) % 4, np.arange(40) // 4 % 3
rows = np.c_[rng.normal(size=(40, 2)).round(3), who, light]
np.savetxt('conditions.csv', rows, delimiter=',', header='a,b,who,light', comments='', fmt='%g')
np.savez('weights.npz', W=rng.normal(size=(4, 3)), b=rng.normal(size=4), c=rng.normal(size=3))
w = rng.normal(size=5)
X = rng.normal(size=(200, 5))
with open('rows.svm', 'w') as file:
    for x in X:
        file.write(f"{1 if x @ w > 0 else -1} " + ' '.join(f'{j + 1}:{v:.4f}' for j, v in enumerate(x)) + '\n')
END
herd kernel-herd points.csv -m 12 -q -o points.samples.h5
herd network grid --rows 3 --columns 3 -q -o grid.h5
herd ups-infer grid.h5 -q -o grid.beliefs.h5
"""


def environment() -> dict[str, str]:
    """This interpreter's herd first, one thread, no colours."""
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1", "HERD_THREADS": "1"}
    return os.environ | own


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A script in bash, in a folder."""
    command = ["bash", "-uo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False)


def files(folder: Path) -> dict[str, str]:
    """Digest of each file below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in found}


def outcome(ended: subprocess.CompletedProcess[bytes], folder: Path, before: dict[str, str]) -> dict[str, object]:
    """What is compared of one run: texts without times and folders, digests of what is new."""
    messages = TIMES.sub("…", ended.stderr.decode(errors="replace").replace(str(folder), "."))
    stdout = hashlib.sha256(TIMES.sub("…", ended.stdout.decode(errors="surrogateescape")).encode(errors="surrogateescape")).hexdigest()[:16]
    written = {name: digest for name, digest in files(folder).items() if before.get(name) != digest}
    return {"exit": ended.returncode, "stdout": stdout, "files": written, "stderr": messages.splitlines()}


def pages() -> dict[str, object]:
    """The shell blocks of each page, one after another in one folder."""
    found: dict[str, object] = {}
    for page in PAGES:
        blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        with tempfile.TemporaryDirectory() as name:
            folder, before = Path(name), {}
            for block in blocks:
                found[f"{page}: {block}"] = outcome(shell(block, folder), folder, before)
                before = files(folder)
    return found


def variants(command: click.Command) -> Iterator[str]:
    """Each choice and each flag of a command, as it is typed."""
    for param in command.params:
        if not isinstance(param, click.Option) or param.name in {"debug", "dry_run", "resume", "quiet", "lock"}:
            continue
        name = max(param.opts, key=len)
        if isinstance(param.type, click.Choice):
            yield from (f"{name} {choice}" for choice in param.type.choices)
        elif param.is_flag:
            yield name
            yield from param.secondary_opts


def command_of(base: str) -> click.Command:
    """The click command of a base's name, as `network grid`."""
    from herdcli.cli.main import COMMANDS

    name, *_ = base.split()
    found: click.Command = import_module(COMMANDS[name][0]).command
    return found


def runs(only: str) -> list[str]:
    """Every run of the bases and their variants that begins so."""
    found = [f"{line} {variant}".strip() for base, line in BASES.items() for variant in ("", *variants(command_of(base)))]
    return [line for line in found if line.startswith(only)]


def alone(forker: Forker, line: str, shared: Path) -> dict[str, object]:
    """One command in a folder of its own, among links to the shared files, in a process forked from one that has imported herd."""
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as none:
        folder = Path(own)
        for path in shared.iterdir():
            (folder / path.name).symlink_to(path)
        before, arguments = files(folder), shlex.split(line.replace("OUT", "out"))[1:]
        streams = (none.fileno(), out.fileno(), err.fileno())
        code = forker.run(arguments, folder=folder, environment=environment(), streams=streams, seconds=300)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
        return outcome(subprocess.CompletedProcess(arguments, code, *texts), folder, before)


def options(only: str) -> dict[str, object]:
    """The base runs and their variants, each on files made once."""
    with tempfile.TemporaryDirectory() as name:
        shared = Path(name)
        made = shell(f"set -e\n{PREPARATION}", shared)
        if made.returncode:
            raise SystemExit(made.stderr.decode())

        forker = Forker(environment())
        try:
            return {line: alone(forker, line, shared) for line in runs(only)}
        finally:
            forker.close()


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """One paragraph for each run that is not what it was."""
    lines = []
    for run in before.keys() | after.keys():
        old, new = before.get(run), after.get(run)
        if old != new:
            lines.append(f"{run}\n  before {json.dumps(old, ensure_ascii=False)}\n  after  {json.dumps(new, ensure_ascii=False)}")
    return sorted(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--without-pages", action="store_true", help="leave out README and manual")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only runs that begin so, as 'herd kernel-herd'")
    arguments = parser.parse_args()
    found = options(arguments.only) | ({} if arguments.without_pages else pages())
    if arguments.action == "record":
        arguments.file.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
        print(f"{len(found)} runs recorded")
        return 0
    before = json.loads(arguments.file.read_text(encoding="utf-8"))
    changed = differences({run: before[run] for run in before if run in found or not (arguments.without_pages or arguments.only)}, found)
    print("\n".join([*changed, f"{len(found)} runs, {len(changed)} differ"]))
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
