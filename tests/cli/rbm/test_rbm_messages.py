"""What fit-rbm and eval say of models, to the letter."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.evaluation import verdicts
from herdcli.evaluation.metrics import quick_metrics
from herdcli.rbm.likelihood.enumeration import exact_log_partition

Run = Callable[..., Any]
NOTHING = "warning: verdict: learned nothing"
ADVICE = (
    "(use more --epochs, a higher --learning-rate, or --standardize for gaussian units; dependence that no pair of columns shows, such "
    "as a parity, needs --algorithm exact --learning-rate 0.3 --epochs 600; or the columns are independent)"
)

BOTH = (  # what to do about a model that also overfits: one list
    "(use more --epochs, a higher --learning-rate, --standardize for gaussian units, fewer --hidden, a larger --weight-decay, or more "
    "rows; dependence that no pair of columns shows"
)


def fit(run: Run, small: Path, *options: str, out: str = "m.h5") -> list[str]:
    """The lines of a fit that succeeds, without the closing one, which tells the time."""
    told = run("fit-rbm", small, "--hidden", "3", *options, "-o", out)
    assert told.code == 0, told.err
    return [line.removeprefix("fit-rbm: ") for line in told.err.splitlines() if " → " not in line]


def test_words_are_advised_what_goes_with_words(tmp_path: Path, run: Run) -> None:
    with h5py.File(tmp_path / "words.h5", "w") as file:
        file["X"] = np.random.default_rng(0).multinomial(40, [0.4, 0.3, 0.2, 0.1], 200)
    fit(run, tmp_path / "words.h5", "--visible-units", "words", "--learning-rate", ".01", "--epochs", "3")
    row = quick_metrics.quick_rbm_metrics(artifacts.load(str(tmp_path / "m.h5")).value)
    told = verdicts.verdict_sentence("worse than independent", row | {"log_likelihood": -9.0, "independent": -8.0}, "rbm")
    assert told.endswith("(-9.00 against -8.00 nats per row): lower --learning-rate, or take more --gibbs-steps")


def test_a_model_worse_than_independent_columns_is_told_by_both_commands(small: Path, run: Run) -> None:
    (said,) = fit(run, small, "--learning-rate", "3", "--epochs", "3")
    found = re.fullmatch(
        r"warning: the model explains held-out rows worse than independent columns do \((-\S+) against (-\S+) nats per row\): "
        r"lower --learning-rate, take more --gibbs-steps, or --algorithm pt",
        said,
    )
    assert found, said
    told = run("eval", "m.h5")
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert row["verdict"] == "worse than independent"
    assert [f"{float(row[name]):.2f}" for name in ("log_likelihood", "independent")] == list(found.groups())
    assert told.err == "eval: warning: m.h5: " + said.removeprefix("warning: ") + "\n"


def test_an_estimate_from_few_chains_is_told(small: Path, run: Run) -> None:
    fit(run, small, "--epochs", "20")
    told = run("eval", "m.h5", "--likelihood", "ais", "--chains", "10", "--temperatures", "50")
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert row["log_z_method"] == "not reliable"
    effective = float(row["effective_chains"])
    assert told.err == (
        f"eval: warning: m.h5: the log-likelihood is not reliable: at 50 temperatures, annealing had {effective:.3g} effective chains, "
        "but 20 are needed; more --chains or --temperatures may help\n"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--folds", "2"), "warning: --folds has no effect without --per-class"),
        (("--average-scores", "2"), "warning: --average-scores has no effect without --per-class"),
        (("--layers", "3,3"), "warning: --hidden has no effect with --layers"),
    ],
)
def test_options_that_do_nothing_are_told(small: Path, run: Run, options: tuple[str, ...], said: str) -> None:
    assert fit(run, small, "--epochs", "2", "--learning-rate", "0.001", *options)[0] == said


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--patience", "2", "--split", ".8,0,.2"), 65, "the split has no validation rows\nhint: hold out some rows: --split .6,.2,.2"),
        (
            ("--per-class", "--patience", "2", "--split", ".8,0,.2"),
            65,
            "class '0' has no validation rows\nhint: hold out some rows: --split .6,.2,.2",
        ),
        (
            ("--patience", "2", "--average", "2"),
            2,
            "--patience and --average exclude each other\nhint: use --patience for the best model, or --average for the mean of the "
            "last ones",
        ),
        (
            ("--patience", "2", "--keep-state"),
            2,
            "--keep-state and --patience exclude each other\nhint: leave out --patience: momentum and chains belong to the last update",
        ),
        (("--layers", "3,3", "--patience", "2"), 2, "--layers and --patience exclude each other"),
        (("--layers", "3,3", "--track-likelihood"), 2, "--layers and --track-likelihood exclude each other"),
        (
            ("--units", "gaussian", "--track-likelihood"),
            2,
            "--track-likelihood needs a layer with a bounded range: log Z of gaussian and gaussian units can diverge while they are "
            "learned\n"
            "hint: use herd eval, which computes log Z of the finished model",
        ),
        (("--layers", "3,3", "--continue", "m.h5"), 2, "--layers and --continue exclude each other"),
        (("--pairs", "--average", "2"), 2, "--pairs and --average exclude each other"),
        (
            ("--continue", "m.h5", "--per-class", "--folds", "2"),
            2,
            "--continue and --folds exclude each other\nhint: leave out one of them: the models of folds are not stored",
        ),
    ],
)
def test_contradictions_are_refused(small: Path, run: Run, options: tuple[str, ...], code: int, said: str) -> None:
    told = run("fit-rbm", small, *options, "-o", "x.h5")
    assert told.code == code
    assert re.sub(r"^herd fit-rbm: (\S*small\.h5: )?", "", told.err.rstrip("\n")) == said


def test_the_epoch_whose_model_is_kept_is_told(small: Path, run: Run) -> None:
    said, *_ = fit(run, small, "--patience", "3", "--epochs", "50", "--learning-rate", ".5")
    model = artifacts.load("m.h5").value
    ended = np.isfinite(model.trace.log_likelihood[:, 0]).sum()
    assert (
        said == f"the model of epoch {model.best_epoch[0]} of {ended} is kept: {np.nanmax(model.trace.log_likelihood):.2f} nats per "
        "validation row"
    )
    assert ended == model.best_epoch[0] + 3 < 50


def test_going_on_with_a_model_says_what_begins_anew(small: Path, run: Run) -> None:
    quiet = ("--learning-rate", ".01", "--rate-decay", "none", "--batch-size", "5")
    (line,) = fit(run, small, *quiet, "--epochs", "2")
    assert re.fullmatch(
        re.escape(NOTHING) + r"; overfits: \S+ ± \S+ nats per held-out row more than independent columns " + re.escape(BOTH) + ".*",
        line,
    )
    told = run("fit-rbm", "--continue", "m.h5", small, "--hidden", "5", "--epochs", "1", "-o", "more.h5")
    assert [line for line in told.err.splitlines() if " → " not in line and "verdict: learned nothing" not in line] == [
        "fit-rbm: warning: --hidden has no effect with --continue: the model decides",
        "fit-rbm: m.h5 has no saved state, so momentum, chains and learning rates start again (herd fit-rbm --keep-state saves them)",
    ]
    assert artifacts.load("more.h5").value.W.shape == (1, 6, 3)


@pytest.mark.parametrize("options", [(), ("--per-class", "--algorithm", "pcd")], ids=["one", "classes"])
def test_two_runs_of_two_epochs_are_one_of_four(small: Path, run: Run, options: tuple[str, ...]) -> None:
    quiet = ("--learning-rate", ".01", "--rate-decay", "none", "--batch-size", "5", "--seed", "3", "--keep-state")
    fit(run, small, *quiet, *options, "--epochs", "4", out="long.h5")
    fit(run, small, *quiet, *options, "--epochs", "2")
    assert run("fit-rbm", "--continue", "m.h5", small, "--epochs", "2", "--keep-state", "-o", "more.h5").code == 0
    long, more = (artifacts.load(path).value for path in ("long.h5", "more.h5"))
    for name in ("W", "b", "c", "epochs", "seed", "classes"):
        np.testing.assert_array_equal(getattr(long, name), getattr(more, name))
    np.testing.assert_array_equal(long.kept.W_velocity, more.kept.W_velocity)
    np.testing.assert_array_equal(long.trace.reconstruction, more.trace.reconstruction)


def test_the_trace_of_validation_rows_is_drawn_where_there_is_one(small: Path, run: Run, tmp_path: Path) -> None:
    fit(run, small, "--epochs", "2")
    told = run("eval", "m.h5", "--plot", "validation", "v.png")
    assert (told.code, told.err.splitlines()[-1]) == (
        65,
        "herd eval: m.h5: there is no trace of validation rows: fit the model with herd fit-rbm --validate-every 1",
    )
    fit(run, small, "--epochs", "4", "--validate-every", "2", out="v.h5")
    assert run("eval", "v.h5", "--plot", "validation", "v.svg").code == 0
    drawn = (tmp_path / "v.svg").read_text()
    assert "nats per validation row" in drawn
    assert "pseudo-likelihood" in drawn


def test_the_error_of_classes_is_drawn_along_the_epochs_where_there_is_one(small: Path, run: Run, tmp_path: Path) -> None:
    fit(run, small, "--epochs", "2", "--validate-every", "1")
    told = run("eval", "m.h5", "--plot", "told", "t.png")
    assert (told.code, told.err.splitlines()[-1]) == (
        65,
        "herd eval: m.h5: there is no trace of errors: fit the model with herd fit-rbm --validate-every 1, and --per-class or --labels",
    )
    fit(run, small, "--epochs", "4", "--validate-every", "2", "--per-class", out="v.h5")
    assert run("eval", "v.h5", "--plot", "told", "t.svg").code == 0
    assert "% of validation rows" in (tmp_path / "t.svg").read_text()


def test_the_tracked_likelihood_is_a_column_of_eval_and_drawn(small: Path, run: Run, tmp_path: Path) -> None:
    fit(run, small, "--epochs", "4", "--track-likelihood", "--learning-rate", ".01")
    told = run("eval", "m.h5", "--plot", "tracked", "t.svg")
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    error = float(row["log_likelihood_tracked_se"])
    assert row["log_z_method"] == "exact"
    assert 0.0 < error < 0.2
    assert abs(float(row["log_likelihood_tracked"]) - float(row["log_likelihood"])) < 2.4 * error
    drawn = (tmp_path / "t.svg").read_text()
    assert all(name in drawn for name in ("training rows", "validation rows", "nats per row"))
    fit(run, small, "--epochs", "2", out="plain.h5")
    told = run("eval", "plain.h5", "--plot", "tracked", "t.png")
    assert (told.code, told.err.splitlines()[-1]) == (
        65,
        "herd eval: plain.h5: there is no trace of log Z: fit the model with herd fit-rbm --track-likelihood",
    )


def test_a_tracked_likelihood_that_lost_the_model_is_told(small: Path, run: Run, tmp_path: Path) -> None:
    fit(run, small, "--epochs", "2", "--track-likelihood", "--learning-rate", ".01")
    assert "tracked" not in run("eval", "m.h5").err
    found = artifacts.load(str(tmp_path / "m.h5"))
    lost = replace(found.value, tracked_se=np.array([12.5]))
    artifacts.save(str(tmp_path / "l.h5"), lost, found.history)
    assert (
        "eval: warning: l.h5: the tracked log-likelihood is not reliable: its standard error is 12.5 nats, beyond 0.5; "
        "lower --learning-rate\n"
    ) in run("eval", "l.h5").err
    shifted = replace(found.value, tracked_log_z=found.value.tracked_log_z + 3.0)
    artifacts.save(str(tmp_path / "s.h5"), shifted, found.history)
    told = run("eval", "s.h5")
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    figures = (float(row[name]) for name in ("log_likelihood_tracked", "log_likelihood"))
    said = "the tracked log-likelihood is not reliable: it is {:.2f} nats, with log Z summed over all states {:.2f}".format(*figures)
    assert f"eval: warning: s.h5: {said}\n" in told.err


@pytest.mark.parametrize("more", [(), ("--patience", "3", "--learning-rate", ".3"), ("--average", "5")], ids=["last", "best", "mean"])
def test_the_tracked_log_z_is_of_the_model_that_is_kept(small: Path, run: Run, more: tuple[str, ...]) -> None:
    fit(run, small, "--epochs", "30", "--track-likelihood", *more)
    model = artifacts.load("m.h5").value
    exact = exact_log_partition(model.harmonium())
    assert abs(model.tracked_log_z[0] - exact) < 2.4 * model.tracked_se[0] < 0.7


def test_tracking_goes_on_where_the_state_was_kept(small: Path, run: Run) -> None:
    fit(run, small, "--epochs", "3", "--track-likelihood", "--keep-state")
    first = artifacts.load("m.h5").value
    assert run("fit-rbm", "--continue", "m.h5", small, "--epochs", "3", "--track-likelihood", "-o", "more.h5").code == 0
    more = artifacts.load("more.h5").value
    np.testing.assert_array_equal(more.trace.tracked_log_z[:3], first.trace.tracked_log_z)
    assert abs(more.tracked_log_z[0] - exact_log_partition(more.harmonium())) < 2.4 * more.tracked_se[0] + 0.005 < 0.7


def test_tracked_models_of_classes_are_the_same_in_shards(small: Path, run: Run, tmp_path: Path) -> None:
    asked = ("--per-class", "--epochs", "3", "--track-likelihood", "--learning-rate", ".01")
    fit(run, small, *asked, out="whole.h5")
    for shard in ("1/2", "2/2"):
        fit(run, small, *asked, "--shard", shard, out=f"part{shard[0]}.h5")
    assert run("merge", "part1.h5", "part2.h5", "-o", "merged.h5").code == 0
    assert (tmp_path / "whole.h5").read_bytes() == (tmp_path / "merged.h5").read_bytes()
    assert np.isfinite(artifacts.load("whole.h5").value.trace.tracked_log_z).all()


def test_models_of_classes_stop_by_themselves_in_shards_too(small: Path, run: Run, tmp_path: Path) -> None:
    asked = ("--per-class", "--patience", "2", "--epochs", "9", "--learning-rate", ".3")
    fit(run, small, *asked, out="whole.h5")
    for shard in ("1/2", "2/2"):
        fit(run, small, *asked, "--shard", shard, out=f"part{shard[0]}.h5")
    assert run("merge", "part1.h5", "part2.h5", "-o", "merged.h5").code == 0
    assert (tmp_path / "whole.h5").read_bytes() == (tmp_path / "merged.h5").read_bytes()


@pytest.mark.parametrize(
    "command", ["fit-rbm --hidden 2 --epochs 1", "fit-rbm --layers 2,2 --epochs 1", "herd --hidden 2 --iterations 5", "ica --iterations 2"]
)
def test_weights_of_rows_are_told_to_count_for_nothing(tmp_path: Path, run: Run, command: str) -> None:
    rows = np.array([[k % 2, k % 3 % 2, 1 + k % 3] for k in range(30)])
    np.savez(tmp_path / "w.npz", X=rows[:, :2], weight=rows[:, 2])
    name, *options = command.split()
    told = run(name, tmp_path / "w.npz", *options, "-o", "w.h5")
    assert told.code == 0, told.err
    assert (
        f"{name}: warning: the column 'weight' is left out because every row counts once here (rename it to use it as a feature)\n"
        in told.err
    )


@pytest.mark.parametrize(
    "command", ["em --components 1 --weights weight", "regress --target a", "kernel-herd -m 2 --row-weight weight", "convert"]
)
def test_a_column_that_is_taken_for_weights_is_told(tmp_path: Path, run: Run, command: str) -> None:
    lines = [f"{k % 7},{k % 3},{1 + k % 3}" for k in range(30)]
    (tmp_path / "w.csv").write_text("\n".join(["a,b,weight", *lines, ""]))
    name, *options = command.split()
    told = run(name, tmp_path / "w.csv", *options, "-o", "w.h5")
    assert told.code == 0, told.err
    assert (
        f"{name}: {tmp_path / 'w.csv'}: column 'weight' gives the weights of the rows and is not a feature (rename it to use it as one)\n"
        in told.err
    )


def test_errors_of_models_of_classes_come_without_annealing(small: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("fit-rbm", small, "--per-class", "--hidden", "3", "--epochs", "2", "-q", "-o", "c.h5").code == 0
    plain = run("eval", "c.h5")
    whole = dict(zip(*(line.split("\t") for line in plain.out.splitlines()), strict=True))
    assert "annealed" not in plain.err  # three hidden units are summed over
    monkeypatch.setattr("herdcli.cli.eval.harmoniums.is_enumerable", lambda h: False)
    count = len({*artifacts.load("c.h5").value.holdout.y.tolist()})
    line = (
        f"eval: log Z of {count} models is estimated by annealing to compute the log-likelihood; --likelihood none skips this and "
        "reports the errors only\n"
    )
    assert line in run("eval", "c.h5").err
    monkeypatch.setattr("herdcli.evaluation.figures.rbm.log_partitions", None)
    told = run("eval", "c.h5", "--likelihood", "none")
    row = dict(zip(*(line.split("\t") for line in told.out.splitlines()), strict=True))
    assert told.err == ""
    assert "log_likelihood" in whole
    assert "log_likelihood" not in row
    assert {name: row[name] for name in ("error", "error_1nn", "error_majority", "reconstruction", "free_energy_gap")} == {
        name: whole[name] for name in ("error", "error_1nn", "error_majority", "reconstruction", "free_energy_gap")
    }
    assert run("fit-rbm", small, "--hidden", "3", "--epochs", "1", "-q", "-o", "m.h5").code == 0
    told = run("eval", "m.h5", "--likelihood", "none")
    message = "herd eval: --likelihood none works only for models that predict labels\nhint: leave out --likelihood\n"
    assert (told.code, told.err) == (2, message)
