"""The runs whose outputs `checks/golden_outputs.py` records: small inputs, a base run of each command, and what is varied in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
ARCHIVES = ROOT / "tests" / "data"  # folders herd-VERSION, each with a histories.zip
PAGES = ("README.md", "docs/guide.md", "docs/cookbook.md")

# name -> a run of under a second; the files it reads are made by PREPARATION
BASES: dict[str, str] = {
    "fit-rbm": "herd fit-rbm few.h5 --hidden 8 --epochs 2 -o OUT.h5",
    "fit-rbm layers": "herd fit-rbm few.h5 --layers 8,4 --epochs 2 -o OUT.h5",
    "herd": "herd herd few.h5 --hidden 6 --iterations 40 -o OUT.h5",
    "herd mrf": "herd herd few.h5 --model mrf --iterations 40 -o OUT.h5",
    "nherd-train": "herd nherd-train rows.svm -o OUT.h5",
    "merge": "herd merge first.h5 second.h5 -o OUT.h5",
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
    "em kmeans": "herd em points.csv --model kmeans --components 3 -o OUT.h5",
    "regress": "herd regress points.csv --target b -o OUT.h5",
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
    "convert held out": "herd convert conditions.csv --keep-last light --hold-out light=2 --label who -o OUT.h5",
    "convert weights": "herd convert weights.npz --to rbm --units spin --range 0,16 -o OUT.h5",
    "data": "herd data digits -o OUT.h5",
    "selftest": "herd selftest --topic herding",
    "info": "herd info few.rbm.h5",
    "check": "herd check few.rbm.h5",
    "completion": "herd completion bash",
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
open('evidence.csv', 'w').write('x0,x4,x8\n0,1,1\n1,-1,0\n0,0,-1\n')
END
herd kernel-herd points.csv -m 12 -q -o points.samples.h5
herd network grid --grid-rows 3 --grid-columns 3 -q -o grid.h5
herd ups-infer grid.h5 -q -o grid.beliefs.h5
herd nherd-train rows.svm -q -o first.h5
herd nherd-train rows.svm --algorithm arow -q -o second.h5
"""

# runs that --shard deals out; each is compared with its shards, what merge makes of them, and under --cluster
SHARDED: dict[str, str] = {
    "models": "herd fit-rbm few.h5 --per-class --hidden 4 --epochs 2",
    "models of folds": "herd fit-rbm few.h5 --per-class --hidden 3 --epochs 1 --folds 2",
    "runs": "herd herd few.h5 --per-class --hidden 5 --iterations 12",
    "groups": "herd kernel-herd few.h5 --by y -m 4",
    "blocks of atoms": "herd kernel-herd points.csv -m 6 --block-rows 15 --block-atoms 6",
    "starts": "herd ups-infer grid.h5 --algorithm bp --schedule sequential --restarts 3 --iterations 40",
    "rows of evidence": "herd ups-infer grid.h5 --evidence-rows evidence.csv",
    "parts of rows": "herd nherd-train binary.csv --label d --parts 3",
    "sums of regress": "herd regress points.csv --target b --one-pass",
    "sums of ica": "herd ica sources.csv --one-pass",
}
CLUSTERED = ("models", "groups", "sums of regress")

# runs that are killed at their second checkpoint and resumed
RESUMED: tuple[str, ...] = (
    "herd fit-rbm few.h5 --hidden 3 --epochs 4",
    "herd fit-rbm few.h5 --hidden 3 --epochs 3 --algorithm pcd --track-likelihood",
    "herd fit-rbm few.h5 --layers 3,2 --epochs 3",
    "herd herd few.h5 --hidden 3 --iterations 20000",
    "herd kernel-herd points.csv -m 6",
    "herd ica sources.csv --steps 6",
    "herd ica sources.csv --algorithm infomax --rates 0.01x8",
    "herd em points.csv --components 2 --iterations 6",
    "herd em points.csv --model hmm --components 2 --iterations 5",
    "herd fit-mrf binary.csv --smoothing 1 --algorithm pseudo-likelihood",
    "herd ups-infer grid.h5 --algorithm bp --schedule residual",
    "herd ups-infer grid.h5 --algorithm gibbs --burn-in 5 --sweeps 20",
    "herd sample few.rbm.h5 --count 3 --burn-in 20",
    "herd nherd-train rows.svm --C 1 --passes 3",
    "herd nherd-train binary.csv --label d --kernel gaussian --passes 9",
)
UNVARIED = {"debug", "dry_run", "resume", "quiet", "lock", "help", "help_all", "output", "cluster", "shard", "every"}

# each function of Python and each estimator, run in one process; what they return is saved under its name
PYTHON = r"""
import dataclasses, importlib.util, json, sys, traceback, warnings
import numpy as np
import herdcli as herd

rng = np.random.default_rng(0)
rows = herd.load("few.h5")
X, y = np.asarray(rows.X), np.asarray(rows.y)
bits = (X > X.mean()).astype(float)
real = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
labels = (real.sum(axis=1) > 0).astype(int)
small = herd.fit_rbm(bits, hidden=3, epochs=2)
grid = herd.network("grid", rows=3, columns=3)
calls = {
    "fit_rbm": lambda: small,
    "fit_rbm per class": lambda: herd.fit_rbm(bits, y, per_class=True, hidden=3, epochs=1, learning_rate=0.1),
    "herd": lambda: herd.herd(bits, hidden=4, iterations=10),
    "nherd_train": lambda: herd.nherd_train(real, labels, algorithm="arow"),
    "kernel_herd": lambda: herd.kernel_herd(real, count=5),
    "network": lambda: grid,
    "ups_infer": lambda: herd.ups_infer(grid, algorithm="bp"),
    "fit_mrf": lambda: herd.fit_mrf(bits[:, 20:24], smoothing=1),
    "ica": lambda: herd.ica(real, iterations=10),
    "em": lambda: herd.em(real, components=2),
    "regress": lambda: herd.regress(real, labels, family="bernoulli"),
    "apply": lambda: herd.apply(small, bits),
    "sample": lambda: herd.sample(small, count=4, burn_in=5),
    "convert": lambda: herd.convert(real),
    "data": lambda: herd.data("digits"),
    "eval": lambda: herd.eval(small),
    "eval network": lambda: herd.eval(grid),
    "an unknown option": lambda: herd.em(real, komponents=2),
    "a bad value": lambda: herd.em(real, components=0),
}
if importlib.util.find_spec("sklearn"):
    from herdcli import sklearn as estimators
    fitted = {
        "RBM": lambda e: e.RBM(3, epochs=2, random_state=0).fit(bits).transform(bits),
        "DBN": lambda e: e.DBN((4, 2), epochs=1, random_state=0).fit(bits).transform(bits),
        "ICA": lambda e: e.ICA(random_state=0).fit(real).transform(real),
        "HMM": lambda e: e.HMM(2, random_state=0).fit(real).predict(real),
        "EMImputer": lambda e: e.EMImputer(random_state=0).fit_transform(np.where(rng.random(real.shape) < .1, np.nan, real)),
        "GLMRegressor": lambda e: e.GLMRegressor().fit(real[:, :2], real[:, 2]).predict(real[:, :2]),
        "KernelHerder": lambda e: e.KernelHerder(5, random_state=0).fit(real).sample_indices_,
        "HerdingClassifier": lambda e: e.HerdingClassifier(3, random_state=0).fit(bits, y).predict(bits),
        "NHERDClassifier": lambda e: e.NHERDClassifier(random_state=0).fit(real, labels).predict(real),
        "MarkovNetwork": lambda e: e.MarkovNetwork().fit(bits[:, 20:24]).artifact_,
    }
    calls |= {f"estimator {name}": lambda make=make: make(estimators) for name, make in fitted.items()}
for name, call in calls.items():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            value = call()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
    for each in warned:
        print(f"{name}: {each.category.__name__}: {each.message}", file=sys.stderr)
    place = f"{name.replace(' ', '_')}"
    if dataclasses.is_dataclass(value):
        herd.save(f"{place}.h5", value)
    elif isinstance(value, np.ndarray):
        np.save(f"{place}.npy", value)
    else:
        open(f"{place}.json", "w").write(json.dumps(value, default=str))
print(*sorted(dir(herd)))
"""

# herd in a process that ends itself, by the signal given, in the moment in which its second checkpoint would take its place
KILLED = r"""
import os, signal, sys
from herdcli.cli.main import main
number, arguments, renamed = getattr(signal, sys.argv[1]), sys.argv[2:], []
def audit(event, args):
    if event == "os.rename" and str(args[1]).endswith("c.state"):
        renamed.append(args)
        if len(renamed) == 2:
            os.kill(os.getpid(), number)
sys.addaudithook(audit)
main(arguments)
"""


RANGES = (click.IntRange, click.FloatRange)
NUMERIC = (*RANGES, click.types.FloatParamType)


def command_of(base: str) -> click.Command:
    """The click command of a base's name, as `network grid`."""
    from herdcli.cli.main import COMMANDS

    name, *_ = base.split()
    found: click.Command = import_module(COMMANDS[name][0]).command
    return found


def _varied(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in UNVARIED:
            yield max(param.opts, key=len), param


def choices(base: str) -> Iterator[str]:
    """Each choice and each flag of a base's command, as it is typed."""
    for name, param in _varied(command_of(base)):
        if isinstance(param.type, click.Choice):
            yield from (f"{name} {shlex.quote(choice)}" for choice in param.type.choices)
        elif param.is_flag:
            yield name
            yield from param.secondary_opts


def numbers(base: str) -> Iterator[str]:
    """Each numeric option of a base's command at another value than its default; in a command's first base below its least value too."""
    command = command_of(base)
    for name, param in _varied(command):
        kind = param.type
        if isinstance(kind, NUMERIC):
            yield f"{name} {other_value(param)}"
        if isinstance(kind, RANGES) and kind.min is not None and base == base.split()[0]:
            yield f"{name} {kind.min - 1:g}"


def other_value(option: click.Option) -> str:
    """A small number within the option's range that is not its default."""
    kind, default = option.type, option.default if isinstance(option.default, int | float) else None
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    whole = isinstance(kind, click.IntRange)
    wanted = (2 if whole else 0.3) if not default or default > 1000 else (default + 1 if whole else default / 2)
    if high is not None and wanted >= high:
        wanted = high - 1 if whole else (high + (low or 0)) / 2
    if low is not None and wanted <= low:
        wanted = low + 1 if whole else (low + high) / 2 if high is not None else low + 0.5
    return f"{wanted:g}"


def helps() -> list[str]:
    """The help of each command, short and whole, and that of the group."""
    from herdcli.cli.main import COMMANDS

    lines = ["herd --help", "herd help", "herd nonsense"]
    for name in COMMANDS:
        lines += [f"herd {name} --help", f"herd {name} --help-all", f"herd help {name}", f"herd {name} --nonsense"]
    return lines


def blocks(page: str) -> list[str]:
    """The shell blocks of a page of the documentation."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
