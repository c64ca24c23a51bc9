"""Same inputs, options and seed: the same bytes, whatever the number of threads and the way they are run."""

from __future__ import annotations

import os

import pytest

FITS = {
    "cd": ["--hidden", "12", "--epochs", "3"],
    "cd 3 spin": ["--hidden", "12", "--epochs", "2", "--steps", "3", "--units", "spin"],
    "pcd": ["--hidden", "12", "--epochs", "2", "--algorithm", "pcd", "--chains", "30"],
    "per class": ["--hidden", "6", "--epochs", "2", "--per-class"],
    "per class with folds": ["--hidden", "6", "--epochs", "1", "--per-class", "--folds", "2"],
    "tracked": ["--hidden", "12", "--epochs", "2", "--track-likelihood", "--validate-every", "1"],
    "own split": ["--hidden", "6", "--epochs", "1", "--split", "60,20,20"],
}


@pytest.mark.parametrize("name", FITS)
def test_fit_twice_and_with_two_threads(herd, digits, tmp_path, name):
    for run, threads in (("first", 1), ("again", 1), ("threads", 2)):
        assert herd("fit-rbm", "digits.h5", *FITS[name], "-j", threads, "-o", f"{run}.h5").code == 0
    first = (tmp_path / "first.h5").read_bytes()
    assert first.startswith(b"herd-artifact 1 kind=rbm ")
    assert (tmp_path / "again.h5").read_bytes() == first
    assert (tmp_path / "threads.h5").read_bytes() == first


def test_file_pipe_and_redirection_are_the_same_bytes(herd, digits, digits_bytes, tmp_path):
    fit = FITS["cd"]
    assert herd("fit-rbm", "digits.h5", *fit, "-o", "named.h5").code == 0
    piped = herd("fit-rbm", *fit, stdin=digits_bytes)
    assert piped.code == 0
    assert piped.out == (tmp_path / "named.h5").read_bytes()


def test_blas_threads_of_the_caller_do_not_matter(herd, digits):
    fit = ["fit-rbm", "digits.h5", "--hidden", "64", "--epochs", "1", "--batch-size", "all"]
    runs = [herd(*fit, env=dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)) for threads in ("1", "2")]
    assert [run.code for run in runs] == [0, 0]
    assert runs[0].out == runs[1].out


def test_another_seed_is_another_result(herd, digits):
    runs = [herd("fit-rbm", "digits.h5", *FITS["cd"], "--seed", seed) for seed in (1, 2**64 - 1)]
    assert [run.code for run in runs] == [0, 0]
    assert runs[0].out != runs[1].out


@pytest.mark.skipif(os.environ.get("HERD_KERNELS") == "python", reason="compares both kernels; needs the compiled ones")
def test_both_kernels_give_the_same_bytes(herd, digits):
    for fit in FITS.values():
        runs = [herd("fit-rbm", "digits.h5", *fit, kernels=kernels) for kernels in ("", "python")]
        assert [run.code for run in runs] == [0, 0]
        assert runs[0].out == runs[1].out


def test_evaluation_is_the_same_text(herd, digits, tmp_path):
    assert herd("fit-rbm", "digits.h5", "--hidden", "30", "--epochs", "2", "-o", "model.h5").code == 0
    tables = [herd("eval", "model.h5", "--temperatures", "200", "-j", threads) for threads in (1, 1, 2)]
    assert [table.code for table in tables] == [0, 0, 0]
    assert tables[0].out == tables[1].out == tables[2].out
    assert tables[0].out.startswith(b"file\tkind\t")
