"""What an algorithm says it will need is what it takes: its estimate grows as the peak of its allocations does."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from herdcli import iterate
from herdcli.em.sequence.sequences import group_rows_into_sequences, step_variance
from herdcli.rbm.likelihood import annealed_importance, mean_field_modes, population_annealing
from herdcli.rbm.likelihood.annealed_importance import AnnealedImportanceSampling
from herdcli.rbm.likelihood.population_annealing import PopulationAnnealing
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family

FACTOR = 2.5  # at most this between the growths of estimate and peak, either way
TWICE = {  # a run whose arrays grow with N, at two sizes
    "RBMLearning": ("fit-rbm bitsN.csv --hidden 300 --epochs 1 -o OUT.h5", 100, 400),
    "RBMLearning fpcd": ("fit-rbm bitsN.csv --hidden 300 --epochs 1 --algorithm fpcd -o OUT.h5", 100, 400),
    "LayerwiseLearning": ("fit-rbm bitsN.csv --layers 300,50 --epochs 1 -o OUT.h5", 100, 400),
    "BlockGibbsSampling": ("sample rbmN.h5 --count 3000 --chains 3000 --burn-in 1 -o OUT.h5", 100, 400),
    "HiddenHerding": ("herd bitsN.csv --hidden 300 --iterations 4 -o OUT.h5", 100, 400),
    "VisibleHerding": ("herd bitsN.csv --model mrf --iterations 4 -o OUT.h5", 100, 400),
    "AtomSelection": ("kernel-herd realN.csv -m 10 -o OUT.h5", 50, 200),
    "MaximumLikelihood": ("ica realN.csv --algorithm ml --iterations 20 -o OUT.h5", 50, 100),
    "StochasticGradient": ("ica realN.csv --algorithm infomax --rate-schedule 0.01x3 -o OUT.h5", 50, 200),
    "StochasticGradient ebm": (
        "ica realN.csv --algorithm ebm --filters 400 --gamma-rate 0.1 --leapfrog 3 --rate-schedule 0.01x3 -o OUT.h5",
        50,
        200,
    ),
    "ComponentSearch": ("em realN.csv --model fa --components 5 --iterations 2 -o OUT.h5", 50, 100),
    "SampledGradient": (
        "fit-mrf bitsN.csv --algorithm gradient --expectations gibbs --chains 400 --iterations 2 --on-nonconvergence warn -o OUT.h5",
        50,
        200,
    ),
}
AT_MOST = {  # a run that fills a small part of the blocks which the estimate counts whole
    "ComponentSearch mixture": "em real50.csv --components 2 --iterations 2 -o OUT.h5",
    "ComponentSearch k-means": "em real50.csv --model kmeans --components 3 -o OUT.h5",
    "ReportingLearner full": "nherd-train labelled.npz --covariance full -o OUT.h5",
    "ReportingLearner full top": "nherd-train labelled.npz --covariance full --multiclass top-1 -o OUT.h5",
    "ReportingLearner full plain": "nherd-train labelled.npz --covariance full --no-bias -o OUT.h5",
    "HiddenHerding": "herd bits400.csv --hidden 300 --iterations 4 -o OUT.h5",
    "VisibleHerding": "herd bits400.csv --model mrf --features x,xx --iterations 4 -o OUT.h5",
    "ComponentSearch mixture of many": "em many.npy --components 5 --iterations 2 -o OUT.h5",
    "ComponentSearch mixture of wide": "em real400.csv --components 2 --iterations 2 -o OUT.h5",
    "ComponentSearch k-means of many": "em many.npy --model kmeans --components 5 --iterations 2 -o OUT.h5",
    "ComponentSearch hmm": "em real50.csv --model hmm --components 3 --iterations 2 -o OUT.h5",
    "ComponentSearch hmm of many": "em many.npy --model hmm --components 3 --iterations 2 -o OUT.h5",
    "ComponentSearch hmm of counts": "em counts.npy --model hmm --emission poisson --components 3 --iterations 2 -o OUT.h5",
    "ComponentSearch hmm of symbols": "em counts.npy --model hmm --emission categorical --components 3 --iterations 2 -o OUT.h5",
    "DictionaryLearning": "ica real50.csv --algorithm sparse-coding --filters 100 --rate-schedule 0.1x1 -o OUT.h5",
    "VariationalCoding": "ica real50.csv --algorithm sparse-coding --posterior gaussian --noise 1 --filters 60 --iterations 1 -o OUT.h5",
    "JointDiagonalisation": "ica real50.csv --algorithm sobi --iterations 2 -o OUT.h5",
    "NewtonDescent": "regress real100.csv --target c0 -o OUT.h5",
    "AtomSelection thinning": "kernel-herd real200.csv -m 60 --rule kernel-thinning -o OUT.h5",
    "AtomSelection pivots": "kernel-herd real50.csv -m 400 --rule rpcholesky -o OUT.h5",
    "AtomSelection support": "kernel-herd real50.csv -m 200 --rule support-points -o OUT.h5",
    "AtomSelection facility": "kernel-herd real50.csv -m 20 --rule facility-location -o OUT.h5",
}
CLOSE = (
    "ReportingLearner full",
    "ReportingLearner full top",
    "HiddenHerding",
    "VisibleHerding",
    "ComponentSearch mixture of many",
    "ComponentSearch k-means of many",
)


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """bitsN.csv (60 rows) and realN.csv (500 rows) of N columns."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    for N in (50, 100, 200, 400):
        names = ",".join(f"c{i}" for i in range(N))
        for name, X in (("bits", rng.integers(2, size=(60, N))), ("real", rng.laplace(size=(500, N)) @ rng.normal(size=(N, N)))):
            np.savetxt(folder / f"{name}{N}.csv", X, delimiter=",", header=names, comments="", fmt="%.4g")
    np.savez(folder / "labelled.npz", X=rng.normal(size=(300, 400)), y=np.arange(300) % 3)
    np.save(folder / "many.npy", rng.normal(size=(20_000, 40)))
    np.save(folder / "counts.npy", rng.poisson(2.0, size=(9_000, 20)).astype(np.float64))
    return folder


def traced(algorithm, ended=lambda state: None) -> tuple[int, int, object]:
    """Its estimate, the peak of what it allocates from its start to its result, and the result."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        estimate, state = algorithm.memory(), iterate.run_steps(algorithm.step, algorithm.init(), until=algorithm.done)
        ended(state)
        result = algorithm.result(state)
        return estimate, tracemalloc.get_traced_memory()[1] - before, result
    finally:
        tracemalloc.stop()


def peaks(run, monkeypatch, line: str) -> list[tuple[str, int, int]]:
    """Name, estimate and peak of each algorithm that a command runs."""
    from herdcli.cli.frame.run.session import Session

    told = []

    def measured(self, algorithm, *, ended=lambda state: None, **others):
        estimate, peak, result = traced(algorithm, ended)
        told.append((type(algorithm).__name__, estimate, peak))
        return result

    monkeypatch.setattr(Session, "run", measured)
    ended = run(*line.split(), "-q")
    assert ended.code == 0, ended.err
    return told


@pytest.mark.parametrize("name", TWICE)
def test_the_estimate_grows_as_the_peak_does(run, tables, monkeypatch, name):
    line, *sizes = TWICE[name]
    for path in tables.iterdir():
        os.symlink(path, Path.cwd() / path.name)
    if "rbmN" in line:
        for N in sizes:
            assert run("fit-rbm", f"bits{N}.csv", "--hidden", 40, "--epochs", 1, "-q", "-o", f"rbm{N}.h5").code == 0
    grown = []
    peaks(run, monkeypatch, line.replace("N", str(sizes[0])))  # what is imported and compiled at first counts for none
    for N in sizes:
        ((found, estimate, peak),) = peaks(run, monkeypatch, line.replace("N", str(N)))
        assert found == name.split()[0]
        grown.append((estimate, peak))
    (estimate, peak), (more, higher) = grown
    assert more > estimate
    assert 1 / FACTOR < (higher - peak) / (more - estimate) < FACTOR


@pytest.mark.parametrize("name", AT_MOST)
def test_an_estimate_of_full_blocks_is_no_less_than_the_peak(run, tables, monkeypatch, name):
    for path in tables.iterdir():
        os.symlink(path, Path.cwd() / path.name)
    peaks(run, monkeypatch, AT_MOST[name])
    ((found, estimate, peak),) = peaks(run, monkeypatch, AT_MOST[name])
    assert found == name.split()[0]
    assert peak <= estimate
    if name in CLOSE:
        assert estimate < FACTOR * peak


@pytest.mark.parametrize("way", ["there", "back", "populations"])
def test_the_estimate_of_annealing_grows_as_its_peak_does(monkeypatch, way):
    monkeypatch.setattr(annealed_importance, "LONG", 2)  # sweeps before the way back
    grown = []
    for D in (100, 100, 400):
        h = Harmonium(np.zeros((D, 40)), np.zeros(D), np.zeros(40), unit_family("binary"), unit_family("binary"))
        algorithm: AnnealedImportanceSampling | PopulationAnnealing
        if way == "populations":
            base = mean_field_modes.BaseMixture.from_biases(h, np.zeros((1, D)))
            algorithm = PopulationAnnealing(population_annealing.PopulationProblem((h,), (base,), (np.linspace(0.0, 1.0, 11),), chains=800))
        else:
            known = (np.zeros((9, D), dtype=np.float32),) if way == "back" else None
            algorithm = AnnealedImportanceSampling(
                annealed_importance.AnnealingProblem((h,), (np.zeros(D),), chains=800, temperatures=10, known=known)
            )
        grown.append(traced(algorithm)[:2])
    (estimate, peak), (more, higher) = grown[1:]
    assert more > estimate
    assert 1 / FACTOR < (higher - peak) / (more - estimate) < FACTOR


def test_the_mean_squared_step_of_a_long_sequence_needs_one_copy_of_its_rows():
    X = np.random.default_rng(0).normal(size=(50_000, 10))
    series = group_rows_into_sequences(X)
    tracemalloc.start()
    try:
        found = step_variance(series, np.ones(10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, np.square(np.diff(X, axis=0)).mean(axis=0), rtol=1e-12)
    assert peak < 2 * X.nbytes
