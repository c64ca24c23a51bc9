"""Archives what today's herd writes, so that tests can ask every later version to read, resume and replay it.

    python scripts checks/archive_outputs tests/data/herd-0.1.0

Writes four zip files, which are never written again once a version is released; a later version gets a folder of its own:

    histories.zip    an artifact of every command and of its less usual options, with the inputs: `check --rerun` makes each again
    checkpoints.zip  the checkpoint of a run that was stopped at its second one, and the result of the whole run
    shards.zip       the two shards of a run, and the result of the whole run
    estimators.zip   pickled estimators of `herdcli.sklearn`, and what they predict of the rows beside them

`index.json` in each says which command line made which file.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from checks.golden_runs import KILLED  # noqa: E402
from forked import Forker  # noqa: E402

INPUTS = r"""
import gzip, numpy as np
rng = np.random.default_rng(0)
bits, real = rng.integers(2, size=(40, 5)), rng.laplace(size=(60, 3)) @ rng.normal(size=(3, 3))
open("bits.csv", "w").write("a,b,c,d,y\n" + "".join(",".join(map(str, row)) + "\n" for row in bits))
lines = [",".join(f"{value:.4g}" for value in row) + "\n" for row in real]
open("real.csv", "w").write("a,b,c\n" + "".join(lines))
open("gaps.csv", "w").write("a,b,c\n" + "".join(lines[1:]) + ",1,2\n")
open("torn.csv", "w").write("a,b,c,d\n1,,0,1\n,0,0,1\n")
open("text.svm", "w").write("".join(f"{2 * (row[0] > 0) - 1} 1:{row[0]:.3f} 2:{row[1]:.3f}\n" for row in real))
open("net.uai", "w").write("MARKOV\n3\n2 2 2\n2\n2 0 1\n2 1 2\n4\n1 2 3 4\n4\n2 1 1 2\n")
open("seen.evid", "w").write("1 0 1\n")
open("evidence.csv", "w").write("x0,x4,x8\n0,1,1\n1,-1,0\n0,0,-1\n")
open("mixture.csv", "w").write("weight,mean,sd\n0.5,-1,1\n0.5,1,1\n")
open("counts.csv", "w").write("n,x,who\n" + "".join(f"{rng.poisson(2 + k % 3)},{k % 3},p{k % 4}\n" for k in range(40)))
"""
EARLIER = (  # artifacts that other runs read
    "herd fit-rbm bits.csv --label y --hidden 4 --epochs 1 -o rbm.h5",
    "herd fit-rbm bits.csv --recurrent --hidden 2 --epochs 1 -o recurrent.h5",
    "herd nherd-train text.svm -o first.h5",
    "herd nherd-train text.svm --algorithm arow -o second.h5",
    "herd kernel-herd real.csv -m 3 -o atoms.h5",
    "herd network grid --rows 3 --columns 3 --seed 1 -o grid.h5",
    "herd em real.csv --model hmm --components 2 --iterations 2 -o chain.h5",
)
HISTORIES = (
    "herd fit-rbm bits.csv --hidden 3 --epochs 2",
    "herd fit-rbm bits.csv --label y --per-class --hidden 3 --epochs 1 --learning-rate 0.1 --momentum 0.5 --weight-decay 0.001",
    "herd fit-rbm bits.csv --layers 4,2 --epochs 1 --steps 2 --batch-size 7",
    "herd fit-rbm bits.csv --below rbm.h5 --hidden 2 --epochs 1",
    "herd fit-rbm bits.csv --recurrent --hidden 3 --epochs 2 --split .5,.25,.25 --links hidden",
    "herd fit-rbm --pairs bits.csv --label y --hidden 3 --epochs 2 --units binary",
    "herd fit-rbm bits.csv --continue rbm.h5 --epochs 2 --learning-rate 0.01 --steps 2",
    "herd fit-rbm bits.csv --algorithm pcd --chains 6 --hidden 2 --epochs 2 --seed 4",
    "herd fit-rbm bits.csv --algorithm fpcd --hidden 2 --epochs 2 --fast-rate 0.02 --fast-decay 0.9",
    "herd fit-rbm bits.csv --algorithm pt --replicas 3 --hidden 2 --epochs 1",
    "herd fit-rbm bits.csv --units spin --hidden 2 --epochs 1 --centering --initial-scale 0.05",
    "herd fit-rbm real.csv --visible-units gaussian --standardize --hidden 2 --epochs 2",
    "herd fit-rbm bits.csv --hidden 3 --epochs 4 --split .6,.2,.2 --patience 2 --validate-every 1",
    "herd fit-rbm bits.csv --hidden 3 --epochs 2 --sparsity-target 0.2 --sparsity-cost 0.3 --l1-decay 0.001",
    "herd herd bits.csv --hidden 3 --iterations 5",
    "herd herd bits.csv --label y --per-class --hidden 3 --iterations 6 --variant safe --hidden-bias full --score-training",
    "herd herd bits.csv --model mrf --features x,xx --iterations 6 --burn-in 2",
    "herd nherd-train bits.csv --label y",
    "herd nherd-train text.svm --C 1 --passes 2 --shuffle --seed 3",
    "herd nherd-train text.svm --continue first.h5",
    "herd nherd-train text.svm --algorithm pa1 --C 1 --label-noise .1",
    "herd nherd-train text.svm --bits 8 --inverse-map",
    "herd nherd-train bits.csv --label y --kernel gaussian --passes 2",
    "herd nherd-train real.csv --label c --task regression",
    "herd merge first.h5 second.h5",
    "herd merge first.h5 second.h5 --data text.svm",
    "herd kernel-herd real.csv -m 5",
    "herd kernel-herd --target gaussian:0,1 --candidates sobol:64 -m 5",
    "herd kernel-herd --target mixture:mixture.csv --candidates sobol:64 -m 5",
    "herd kernel-herd real.csv --extend atoms.h5 -m 6",
    "herd kernel-herd real.csv -m 5 --rule line-search --weights simplex --kernel laplace",
    "herd kernel-herd real.csv -m 5 --rule compress++ --bandwidth 0.7",
    "herd kernel-herd real.csv -m 5 --rule rpcholesky --seed 5",
    "herd network tree --nodes 6 --seed 3",
    "herd network random --nodes 7 --degree 3 --sigma-w 2",
    "herd network convert net.uai",
    "herd ups-infer net.uai",
    "herd ups-infer net.uai --evidence seen.evid",
    "herd ups-infer grid.h5 --algorithm bp --schedule parallel --damping 0.2",
    "herd ups-infer grid.h5 --algorithm ups --iterations 30",
    "herd ups-infer grid.h5 --algorithm gibbs --burn-in 5 --sweeps 20 --seed 2",
    "herd ups-infer grid.h5 --evidence-rows evidence.csv",
    "herd ups-infer grid.h5 --query mpe",
    "herd fit-mrf bits.csv --smoothing 1",
    "herd fit-mrf bits.csv --structure l1",
    "herd fit-mrf bits.csv --smoothing 1 --algorithm ipf --iterations 5",
    "herd ica real.csv --iterations 5",
    "herd ica real.csv --algorithm infomax --rates 0.01x8",
    "herd ica real.csv --algorithm sobi --lags 5",
    "herd ica real.csv --algorithm ebm --filters 4 --gamma-rate 0.1 --leapfrog 3 --rates 0.01x10",
    "herd ica real.csv --algorithm sparse-coding --filters 4 --rates 0.1x3",
    "herd em real.csv --components 2 --iterations 3",
    "herd em real.csv --components 2 --covariance diagonal --restarts 2 --tolerance 0.01",
    "herd em real.csv --model hmm --components 2 --iterations 2",
    "herd em real.csv --model lds --components 1 --iterations 2",
    "herd em real.csv --model kmeans --components 2",
    "herd em real.csv --model fa --components 1 --iterations 4",
    "herd em real.csv --model ppca --components 1",
    "herd regress real.csv --target c",
    "herd regress gaps.csv --target c --missing mean",
    "herd regress bits.csv --target y --family bernoulli --l2 0.1",
    "herd regress counts.csv --target n --family poisson --drop who",
    "herd regress real.csv --target c --one-pass",
    "herd eval rbm.h5",
    "herd eval grid.h5",
    "herd apply rbm.h5 bits.csv",
    "herd sample rbm.h5 --count 4",
    "herd sample rbm.h5 --count 4 --chains 2 --burn-in 7",
    "herd sample rbm.h5 --given torn.csv --burn-in 5",
    "herd sample recurrent.h5 --count 2 --steps 3 --burn-in 4",
    "herd sample chain.h5 --count 5",
    "herd convert real.csv --split 6,2,2",
    "herd convert counts.csv --keep-last who",
    "herd convert text.svm",
)
CHECKPOINTS = (
    "herd fit-rbm bits.csv --hidden 3 --epochs 4",
    "herd fit-rbm bits.csv --hidden 3 --epochs 4 --algorithm pcd --track-likelihood",
    "herd fit-rbm bits.csv --hidden 3 --epochs 4 --algorithm pt --replicas 3",
    "herd fit-rbm bits.csv --layers 3,2 --epochs 3",
    "herd fit-rbm bits.csv --recurrent --hidden 3 --epochs 4",
    "herd fit-rbm bits.csv --label y --per-class --hidden 3 --epochs 3",
    "herd herd bits.csv --hidden 3 --iterations 20000",
    "herd herd bits.csv --model mrf --features x,xx --iterations 20000",
    "herd kernel-herd real.csv -m 6",
    "herd kernel-herd real.csv -m 6 --rule line-search --weights simplex",
    "herd kernel-herd real.csv -m 3 --block-rows 20",
    "herd ica real.csv --steps 6",
    "herd ica real.csv --algorithm infomax --rates 0.01x8",
    "herd ica real.csv --algorithm ebm --filters 4 --gamma-rate 0.1 --leapfrog 3 --rates 0.01x10",
    "herd em real.csv --components 2 --iterations 6",
    "herd em real.csv --model hmm --components 2 --iterations 5",
    "herd em real.csv --model lds --components 1 --iterations 5",
    "herd em real.csv --model fa --components 1 --iterations 6",
    "herd em real.csv --model kmeans --components 3",
    "herd regress bits.csv --target y --family bernoulli --l1 0.05",
    "herd fit-mrf bits.csv --smoothing 1 --algorithm pseudo-likelihood",
    "herd ups-infer grid.h5 --algorithm bp --schedule residual",
    "herd ups-infer grid.h5 --algorithm bp --schedule sequential",
    "herd ups-infer grid.h5 --algorithm ups",
    "herd ups-infer grid.h5 --algorithm gibbs --burn-in 5 --sweeps 20",
    "herd ups-infer grid.h5 --algorithm tempered-gibbs --burn-in 5 --sweeps 20",
    "herd sample rbm.h5 --count 3 --burn-in 20",
    "herd nherd-train text.svm --C 1 --passes 3",
    "herd nherd-train bits.csv --label y --kernel gaussian --passes 9",
)
SHARDS = (
    "herd fit-rbm bits.csv --label y --per-class --hidden 3 --epochs 2",
    "herd herd bits.csv --label y --per-class --hidden 3 --iterations 6",
    "herd kernel-herd bits.csv --by y -m 3",
    "herd kernel-herd real.csv -m 4 --block-rows 15 --block-atoms 6",
    "herd ups-infer grid.h5 --algorithm bp --schedule sequential --restarts 3 --iterations 40",
    "herd ups-infer grid.h5 --evidence-rows evidence.csv",
    "herd nherd-train bits.csv --label y --parts 3",
    "herd regress real.csv --target c --one-pass",
    "herd ica real.csv --one-pass",
)
ESTIMATORS = r"""
import pickle, warnings, numpy as np
from herdcli import sklearn as herd
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
bits, real = (rng.random((30, 5)) < .5).astype(float), rng.laplace(size=(30, 3)) @ rng.normal(size=(3, 3))
y = (real.sum(axis=1) > 0).astype(int)
gaps = np.where(rng.random(real.shape) < .1, np.nan, real)
np.savez("rows.npz", bits=bits, real=real, gaps=gaps, labels=y)
fitted = {
    "RBM": (herd.RBM(3, epochs=2).fit(bits), "transform", "bits"),
    "DBN": (herd.DBN((3, 2), epochs=1).fit(bits), "transform", "bits"),
    "ICA": (herd.ICA().fit(real), "transform", "real"),
    "HMM": (herd.HMM(2).fit(real), "predict", "real"),
    "LDS": (herd.LDS(1, iterations=3).fit(real), "predict", "real"),
    "EMImputer": (herd.EMImputer(iterations=5).fit(gaps), "transform", "gaps"),
    "GLMRegressor": (herd.GLMRegressor().fit(real[:, :2], real[:, 2]), "predict", "real:2"),
    "KernelHerder": (herd.KernelHerder(4).fit(real), "", "real"),
    "HerdingClassifier": (herd.HerdingClassifier(3, iterations=20).fit(bits, y), "predict", "bits"),
    "NHERDClassifier": (herd.NHERDClassifier().fit(real, y), "predict", "real"),
    "MarkovNetwork": (herd.MarkovNetwork().fit(bits), "", "bits"),
}
index = {}
for name, (estimator, method, rows) in fitted.items():
    with open(f"{name}.pickle", "wb") as file:
        pickle.dump(estimator, file, protocol=4)
    given = {"bits": bits, "real": real, "gaps": gaps, "real:2": real[:, :2]}[rows]
    if method and not hasattr(estimator, method):
        method = ""
    if method:
        np.save(f"{name}.npy", getattr(estimator, method)(given))
    index[f"{name}.pickle"] = {"method": method, "rows": rows}
import json
open("index.json", "w").write(json.dumps(index, indent=1))
"""


class Archive:
    """Files made in a scratch folder, and the zip file that they go into."""

    def __init__(self, folder: Path, forker: Forker) -> None:
        self.folder, self.index, self._forker = folder, dict[str, object](), forker
        self.kept: list[str] = []

    def python(self, program: str, *arguments: str) -> int:
        """A program of Python in the folder."""
        return subprocess.run([sys.executable, "-c", program, *arguments], cwd=self.folder, check=False, timeout=300).returncode

    def herd(self, line: str) -> None:
        """A run that succeeds."""
        with open(os.devnull, "r+") as none:
            streams = (none.fileno(), none.fileno(), 2)
            code = self._forker.run(shlex.split(line)[1:], folder=self.folder, environment=dict(os.environ), streams=streams, seconds=300)
        if code:
            raise SystemExit(f"{line}: exit code {code}")

    def inputs(self) -> None:
        """Rows, networks and the artifacts that others are made from."""
        self.python(INPUTS)
        for line in EARLIER:
            self.herd(f"{line} -q")
        self.kept += [path.name for path in self.folder.iterdir()]

    def write(self, path: Path) -> None:
        """The zip file: same files, same bytes."""
        (self.folder / "index.json").write_text(json.dumps(self.index, indent=1), encoding="utf-8")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted({*self.kept, "index.json"}):
                entry = zipfile.ZipInfo(name, (2026, 11, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, (self.folder / name).read_bytes())


def histories(archive: Archive) -> None:
    """One artifact for each line."""
    archive.inputs()
    for number, line in enumerate(HISTORIES, 1):
        name = f"{line.split()[1]}-{number}.h5"
        archive.herd(f"{line} -q -o {name}")
        archive.index[name] = line
        archive.kept.append(name)


def checkpoints(archive: Archive) -> None:
    """A checkpoint and the whole run's result for each line."""
    archive.inputs()
    for number, line in enumerate(CHECKPOINTS, 1):
        name = f"{line.split()[1]}-{number}"
        archive.herd(f"{line} -q -o {name}.h5")
        typed = f"{line} -q --checkpoint c.state --every 1 -o killed.h5"
        if archive.python(KILLED, "SIGTERM", *shlex.split(typed)[1:]) != 75:
            print(f"{line}: ended before its second checkpoint", file=sys.stderr)
            continue
        (archive.folder / "c.state").rename(archive.folder / f"{name}.state")
        archive.index[f"{name}.state"] = line
        archive.kept += [f"{name}.state", f"{name}.h5"]


def shards(archive: Archive) -> None:
    """Two shards and the whole run's result for each line."""
    archive.inputs()
    for number, line in enumerate(SHARDS, 1):
        name = f"{line.split()[1]}-{number}"
        archive.herd(f"{line} -q -o {name}.h5")
        for shard in (1, 2):
            archive.herd(f"{line} --shard {shard}/2 -q -o {name}.{shard}.h5")
        archive.index[f"{name}.h5"] = line
        archive.kept += [f"{name}.h5", f"{name}.1.h5", f"{name}.2.h5"]


def estimators(archive: Archive) -> None:
    """Pickles, rows and predictions."""
    if archive.python(ESTIMATORS):
        raise SystemExit("the estimators were not fitted")
    archive.index = json.loads((archive.folder / "index.json").read_text(encoding="utf-8"))
    archive.kept = [path.name for path in archive.folder.iterdir()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    forker = Forker(dict(os.environ))
    try:
        for make in (histories, checkpoints, shards, estimators):
            with tempfile.TemporaryDirectory() as scratch:
                archive = Archive(Path(scratch), forker)
                make(archive)
                archive.write(path := folder / f"{make.__name__}.zip")
                print(f"{path}: {len(archive.index)} entries, {path.stat().st_size / 1000:.0f} kB", flush=True)
    finally:
        forker.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
