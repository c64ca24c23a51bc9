"""Commands whose blocks are with workers, without any: a stand-in sends blocks and statistics as bytes and adds them as a worker does."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.artifacts.rows import lazy_matrix
from herdcli.cli.frame.run import block_placement
from herdcli.cli.frame.run.session import Session
from herdcli.cli.main import cli
from herdcli.cluster import serialization, worker_tasks
from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BlockSource, BlockStatistics, RemoteSource, Sums

EM = ["--iterations", "3", "--tolerance", "0"]
COMMANDS = {
    "mixtures": ["em", "rows.npy", "--components", "2", *EM],
    "mixtures by bayes": ["em", "rows.npy", "--components", "2", "--bayes", *EM],
    "k-means": ["em", "rows.npy", "--model", "kmeans", "--components", "3", *EM],
    "minibatches": ["em", "rows.npy", "--model", "kmeans", "--components", "3", "--minibatch", "2"],
    "factors of rows with gaps": ["em", "gaps.npy", "--model", "fa", "--components", "1", *EM],
    "principal axes of rows with gaps": ["em", "gaps.npy", "--model", "ppca", "--components", "1", *EM],
    "wide principal axes": ["em", "wide.npy", "--model", "pca", "--components", "2", "--solver", "randomised"],
    "states that are known": ["em", "series.csv", "--model", "hmm", "--per-class", "--sequence", "s", *EM],
    "mixtures in time": ["em", "series.csv", "--model", "hmm", "--emission", "gmm", "--components", "2", "--sequence", "s", *EM],
    "counts in time": ["em", "counts.csv", "--model", "hmm", "--components", "2", "--emission", "poisson", *EM],
    "symbols in time": ["em", "counts.csv", "--model", "hmm", "--components", "2", "--emission", "categorical", *EM],
    "states with controls": ["em", "series.csv", "--model", "lds", "--components", "1", "--controls", "c", "--sequence", "s", *EM],
    "states of rows with gaps": ["em", "gaps.npy", "--model", "lds", "--components", "1", *EM],
    "regression": ["regress", "series.csv", "--target", "y", "--l2", "0.01"],
    "independent components": ["ica", "rows.npy", "--iterations", "8"],
    "independent components of either sort": ["ica", "rows.npy", "--iterations", "8", "--density", "auto", "--components", "2"],
    "parts of a stream": ["nherd-train", "series.csv", "--label", "y", "--parts", "5", "--rounds", "2", "--shuffle"],
    "parts of whole covariances": ["nherd-train", "series.csv", "--label", "y", "--parts", "3", "--rounds", "2", "--covariance", "full"],
    "pseudo-likelihood": ["fit-mrf", "states.npy", "--algorithm", "pseudo-likelihood", "--iterations", "3"],
}  # fmt: skip


class Away(RemoteSource):
    """Blocks that go to a worker and back: chunks of two, of which a worker sends one entry of the tree."""

    def __init__(self, source: BlockSource) -> None:
        self.source, self.asked = source, 0

    @property
    def count(self) -> int:
        return self.source.count

    def take(self, first: int, last: int):
        return self.source.take(first, last)

    def sums(self, statistics: BlockStatistics, first: int) -> list[tuple[int, Sums]]:
        self.asked += 1
        begin = first - first % 2
        blocks = serialization.serialize(list(self.source.take(begin, min(begin + 2, self.count))))
        reply = worker_tasks.run_block_sums(blocks, serialization.serialize(statistics), first - begin, {})
        return [(size, sums) for size, sums in serialization.deserialize(reply["sums"])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three blocks and more: with gaps, wide ones, states, and sequences with labels, a control and counts."""
    found, draw = tmp_path_factory.mktemp("rounds"), np.random.default_rng(0)
    X = draw.normal(size=(9000, 3)) + 3.0 * draw.integers(0, 3, 9000)[:, None]
    np.save(found / "rows.npy", X)
    np.save(found / "gaps.npy", np.where(draw.random((9000, 2)) < 0.01, np.nan, X[:, :2]))
    np.save(found / "wide.npy", draw.normal(size=(9000, 20)) + 2.0 * draw.normal(size=(9000, 1)))
    np.save(found / "states.npy", (X > 3.0).astype(np.uint8))
    y, s = (X[:, 0] > 3.0).astype(int), np.arange(len(X)) // 50
    table = np.column_stack([X[:, :2].round(3), draw.normal(size=len(X)).round(3), y, s])
    np.savetxt(found / "series.csv", table, delimiter=",", header="a,b,c,y,s", comments="", fmt="%.7g")
    counts = np.column_stack([draw.poisson(np.where(y, 9, 2)), s])
    np.savetxt(found / "counts.csv", counts, delimiter=",", header="n,sequence", comments="", fmt="%d")
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_sums_of_workers_make_the_bytes_of_one_process(folder, name, monkeypatch, tmp_path):
    away: list[Away] = []

    def spread(session: Session, source: BlockSource) -> BlockSource:
        away.append(Away(source))
        return away[-1]

    monkeypatch.chdir(folder)
    cli.main([*COMMANDS[name], "-q", "-o", str(tmp_path / "one.h5")], prog_name="herd", standalone_mode=False, obj=[])
    monkeypatch.setattr(block_placement, "place_blocks_on_workers", spread)
    cli.main([*COMMANDS[name], "-q", "-o", str(tmp_path / "dealt.h5")], prog_name="herd", standalone_mode=False, obj=[])
    assert (tmp_path / "dealt.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()
    assert [each.asked > 0 for each in away] == [True]


class Passed(Away):
    """Groups of a minibatch, of which a worker sends one at a time; they are others in each round."""

    def sums(self, statistics: BlockStatistics, first: int) -> list[tuple[int, Sums]]:
        self.asked += 1
        reply = worker_tasks.run_block_sums(
            serialization.serialize(list(self.source.take(first, first + 1))), serialization.serialize(statistics), 0, {}
        )
        return [(size, sums) for size, sums in serialization.deserialize(reply["sums"])]


FIT = ["fit-rbm", "--hidden", "5", "--epochs", "2", "--batch-size", "1500"]
MODELS = {
    "cd": ["states.npy", "--gibbs-steps", "2"],
    "cd of means": ["states.npy", "--mean-field", "visible", "--sparsity-target", "0.1", "--centering"],
    "pcd": ["states.npy", "--algorithm", "pcd"],
    "pcd of fewer chains than rows": ["states.npy", "--algorithm", "pcd", "--chains", "700", "--optimizer", "adam"],
    "pcd of more chains than rows": ["states.npy", "--algorithm", "pcd", "--batch-size", "300", "--chains", "1100"],
    "fast weights": ["states.npy", "--algorithm", "fpcd"],
    "deviations": ["rows.npy", "--units", "gaussian", "--standardize", "--learn-variances", "--learning-rate", "0.01"],
    "words": ["words.npy", "--visible-units", "words"],
    "wide": ["bits.npy", "--hidden", "60"],
    "labels": ["labelled.csv", "--labels", "generative", "--label", "y"],
}  # fmt: skip


@pytest.fixture(scope="module")
def models(folder: Path) -> Path:
    """Rows of words, wide rows with few ones, and states with a label."""
    draw = np.random.default_rng(1)
    np.save(folder / "words.npy", draw.poisson(2.0, size=(3000, 6)) + 1)
    np.save(folder / "bits.npy", (draw.random((3200, 300)) < 0.1).astype(np.uint8))
    table = np.column_stack([draw.integers(0, 2, (3000, 4)), draw.integers(0, 3, 3000)])
    np.savetxt(folder / "labelled.csv", table, delimiter=",", header="a,b,c,d,y", comments="", fmt="%d")
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_minibatches_of_workers_make_the_bytes_of_one_process(models, name, monkeypatch, tmp_path):
    away: list[Passed] = []

    def spread(session: Session, source: BlockSource, *, passing: bool) -> BlockSource:
        assert passing
        away.append(Passed(source))
        return away[-1]

    command = [*FIT, *MODELS[name], "-q", "-o"]
    monkeypatch.chdir(models)
    cli.main([*command, str(tmp_path / "one.h5")], prog_name="herd", standalone_mode=False, obj=[])
    monkeypatch.setattr(block_placement, "place_blocks_on_workers", spread)
    cli.main([*command, str(tmp_path / "dealt.h5"), "--cluster", "local:2"], prog_name="herd", standalone_mode=False, obj=[])
    assert (tmp_path / "dealt.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()
    assert [each.asked >= 8 for each in away] == [True]


def test_rows_that_change_between_rounds_end_the_run_and_lose_nothing(tmp_path, monkeypatch):
    """A large file is read again where a worker took its rows with it; put back as it was, the run goes on from its last round."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lazy_matrix, "LEAST", 1)
    with h5py.File("rows.h5", "w") as file:
        file["X"] = np.random.default_rng(2).laplace(size=(9000, 3))
    words = ["ica", "rows.h5", "--iterations", "8", "-q"]
    cli.main([*words, "-o", "one.h5"], prog_name="herd", standalone_mode=False, obj=[])
    content, before = Path("rows.h5").read_bytes(), os.stat("rows.h5")

    class Lost(Away):
        def sums(self, statistics: BlockStatistics, first: int) -> list[tuple[int, Sums]]:
            if self.asked == 9:
                Path("rows.h5").write_bytes(content[:-8] + bytes(8))
                os.utime("rows.h5", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
            return super().sums(statistics, first)

    monkeypatch.setattr(block_placement, "place_blocks_on_workers", lambda session, source: Lost(source))
    line = [*words, "-o", "dealt.h5", "--checkpoint", "run.state", "--every", "1"]
    with pytest.raises(DataError) as error:
        cli.main(line, prog_name="herd", standalone_mode=False, obj=[])
    assert str(error.value) == "rows.h5: the file changed during the run"
    assert not Path("dealt.h5").exists()
    Path("rows.h5").write_bytes(content)
    monkeypatch.setattr(block_placement, "place_blocks_on_workers", lambda session, source: Away(source))
    cli.main([*line, "--resume"], prog_name="herd", standalone_mode=False, obj=[])
    assert Path("dealt.h5").read_bytes() == Path("one.h5").read_bytes()
