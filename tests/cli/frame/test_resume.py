"""What was interrupted goes on to the same bytes, also behind its last step, and never with another text than it began with."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

RANDOM = np.random.default_rng(11)
FINISHED = [
    "fit-rbm small.h5 --hidden 3 --epochs 2",
    "fit-rbm small.h5 --hidden 3 --epochs 3 --track-likelihood",
    "fit-rbm small.h5 --layers 3,2 --epochs 2",
    "herd small.h5 --hidden 3 --iterations 3",
    "kernel-herd points.csv -m 3",
    "kernel-herd points.csv -m 3 --block-rows 20",
    "kernel-herd points.csv -m 3 --block-rows 20 --embedding nystrom:9",
    "ica points.csv --proposals 2",
    "ica points.csv --algorithm infomax --rate-schedule 0.01x4",
    "fit-mrf binary.csv --smoothing 1",
    "ups-infer grid.h5 --algorithm bp",
    "ups-infer grid.h5 --algorithm ups",
    *(f"ups-infer free.h5 --algorithm {name} --burn-in 5 --sweeps 20" for name in ("gibbs", "tempered-gibbs")),
    "sample small.rbm.h5 --count 3 --burn-in 2",
    "nherd-train rows.svm",
    "nherd-train rows.svm --C 1 --passes 2",
    "nherd-train rows.svm --C 1 --shuffle",
    "nherd-train rows.svm --bits 8 --inverse-map",
    "nherd-train labels.svm --task multilabel --passes 2",
    "nherd-train rows.svm --continue begun.h5 --passes 2",
    "nherd-train rows.svm --continue full.h5 --covariance full --passes 2",
    "nherd-train small.h5 --classes 0,1",
    "nherd-train small.h5 --classes 0,1 --parts 3",
    "nherd-train small.h5 --classes 0,1 --kernel gaussian --passes 2",
]


def lines(count: int, seed: int = 0) -> bytes:
    """svmlight text whose label is the sign of a sum."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, 5))
    return b"".join(
        f"{1 if row.sum() > 0 else -1} {' '.join(f'{k + 1}:{value:.3f}' for k, value in enumerate(row))}\n".encode() for row in rows
    )


@pytest.fixture
def inputs(herd, small, tmp_path):
    """What the commands of this page read."""
    np.savetxt(tmp_path / "points.csv", RANDOM.laplace(size=(60, 3)), delimiter=",", header="a,b,c", comments="")
    np.savetxt(tmp_path / "binary.csv", RANDOM.integers(0, 2, (60, 3)), delimiter=",", header="a,b,c", comments="", fmt="%d")
    (tmp_path / "rows.svm").write_bytes(lines(300))
    (tmp_path / "labels.svm").write_bytes(lines(200).replace(b"-1 ", b"1,3 "))
    (tmp_path / "few.svm").write_bytes(b"1 1:.5 2:.25\n-1 1:-.5 2:.125\n" * 20)
    for name, how in (("begun.h5", "diagonal"), ("full.h5", "full")):
        assert herd("nherd-train", "few.svm", "--covariance", how, "-q", "-o", name).code == 0
    assert herd("network", "grid", "--grid-rows", "3", "--grid-columns", "3", "-o", "grid.h5").code == 0
    assert herd("network", "random", "--nodes", "8", "--mean-degree", "3", "-o", "free.h5").code == 0
    assert herd("fit-rbm", "small.h5", "--hidden", "3", "--epochs", "1", "-q", "-o", "small.rbm.h5").code == 0
    return tmp_path


@pytest.mark.parametrize("line", FINISHED)
def test_a_run_whose_result_could_not_be_written_is_resumed_behind_its_last_step(herd, inputs, line):
    command = [*line.split(), "-q"]
    whole = herd(*command, "-o", "whole.h5")
    assert whole.code == 0, whole.err
    kept = ("--checkpoint", "c.state", "--every", "1")
    assert herd(*command, *kept, "-o", "/dev/full").code == 74
    assert (inputs / "c.state").exists()
    resumed = herd(*command, *kept, "--resume", "-o", "resumed.h5")
    assert (resumed.code, resumed.err) == (0, "")
    assert (inputs / "resumed.h5").read_bytes() == (inputs / "whole.h5").read_bytes()
    assert not (inputs / "c.state").exists()


def test_a_signal_before_the_result_is_written_saves_the_state_that_was_learned(herd, inputs, monkeypatch):
    from herdcli import artifacts
    from herdcli.cli.main import main

    line = "fit-rbm points.csv --hidden 2 --epochs 1 --visible-units gaussian --standardize --learn-variances -q"
    kept = ("--checkpoint", "c.state", "--every", "1")
    assert herd(*line.split(), "-o", "whole.h5").code == 0
    monkeypatch.chdir(inputs)
    with monkeypatch.context() as patched:
        patched.setattr(artifacts, "save", lambda *given, **more: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), *kept, "-o", "resumed.h5"])
    assert ended.value.code == 75
    assert herd(*line.split(), *kept, "--resume", "-o", "resumed.h5").code == 0
    assert (inputs / "resumed.h5").read_bytes() == (inputs / "whole.h5").read_bytes()


def test_a_run_of_two_algorithms_is_resumed_in_either(herd, tmp_path):
    assert herd("network", "random", "--nodes", "60", "--mean-degree", "9", "-q", "-o", "dense.h5").code == 0
    line = ["ups-infer", "dense.h5", "--query", "mpe", "--effort", "0.02", "--search-steps", "3", "--max-memory", "300M"]
    kept = ("--checkpoint", "c.state", "--every", "1")
    whole = herd(*line, "-o", "whole.h5")
    assert "branch and bound" in whole.err
    assert herd(*line, *kept, "-q", "-o", "/dev/full").code == 74  # the checkpoint is of the second
    resumed = herd(*line, *kept, "--resume", "-o", "resumed.h5")
    assert resumed.code == 0, resumed.err
    assert "resuming from step" in resumed.err
    assert (tmp_path / "resumed.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


BEGUN_WITH_WORK = [
    "fit-rbm small.h5 --hidden 3 --epochs 1 --algorithm pcd",
    "fit-rbm small.h5 --layers 3,2 --epochs 1",
    "sample small.rbm.h5 --count 3 --burn-in 2",
    "ica points.csv --proposals 2",
    "ica points.csv --proposals 2 --density auto",
    "ica points.csv --algorithm sobi --lags 15",
    "em points.csv --components 2 --iterations 2",
    "ups-infer grid.h5 --algorithm bp --schedule residual",
    "ups-infer grid.h5 --algorithm bp --schedule sequential",
    "ups-infer grid.h5 --algorithm ups",
    "ups-infer grid.h5 --algorithm is-bp --observe x0=.3,.7",
    "ups-infer grid.h5 --algorithm enumerate --observe x0=.3,.7",
    "fit-mrf binary.csv --smoothing 1",
    "fit-mrf binary.csv --smoothing 1 --algorithm ipf",
]


@pytest.mark.parametrize("line", BEGUN_WITH_WORK)
def test_a_resumed_run_does_not_begin_again(inputs, monkeypatch, line):
    from herdcli.algorithm import HasStateShapes
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.main import main
    from herdcli.schema import check_same_shapes

    begun = []

    def run(session, algorithm, **more):
        kind = type(algorithm)
        assert isinstance(algorithm, HasStateShapes)
        if session.resume:
            monkeypatch.setattr(kind, "init", lambda self: pytest.fail("init is run by a resumed run"))
        else:
            first = algorithm.init()
            check_same_shapes(first, algorithm.state_template())
            check_same_shapes(algorithm.state_template(), first)
        begun.append(session.resume)
        return original(session, algorithm, **more)

    original = Session.run
    monkeypatch.setattr(Session, "run", run)
    monkeypatch.chdir(inputs)
    command = [*line.split(), "-q", "--checkpoint", "c.state", "--every", "1"]
    for more, code in ((["-o", "/dev/full"], 74), (["--resume", "-o", "resumed.h5"], 0)):
        with pytest.raises(SystemExit) as ended:
            main([*command, *more])
        assert (ended.value.code or 0) == code
    assert begun == [False, True]


@pytest.mark.parametrize("where", ["state_template", "step", "result"])
def test_a_fault_of_the_program_is_not_put_down_to_the_checkpoint(herd, inputs, monkeypatch, where):
    """An error after --resume is bad data only where the checkpoint holds a state that the run does not come to from its start."""
    from herdcli.cli.main import main
    from herdcli.markov.bethe.loopy_propagation import BeliefPropagation

    monkeypatch.chdir(inputs)
    command = ["ups-infer", "grid.h5", "--algorithm", "bp", "-q", "--checkpoint", "c.state", "--every", "1"]
    assert herd(*command, "-o", "/dev/full").code == 74

    def broken(self, *given):
        raise TypeError("'numpy.ndarray' object is not callable")

    monkeypatch.setattr(BeliefPropagation, where, broken)
    if where == "step":
        monkeypatch.setattr(BeliefPropagation, "done", lambda self, state: False)
    with pytest.raises(TypeError, match="not callable"):  # which the console script ends with 70, and tests see as it is
        main([*command, "--resume", "-o", "out.h5"])


def flipped(text: bytes) -> bytes:
    """The same lines, other labels in the second half."""
    half = text.rfind(b"\n", 0, len(text) * 3 // 4) + 1
    return text[:half] + text[half:].replace(b"\n-1 ", b"\n+1 ").replace(b"\n1 ", b"\n-1 ")


OTHER = "differs from the text that the run of the checkpoint has read"
CHANGED = [
    ("flipped", flipped, (), OTHER),
    ("flipped, shuffled", flipped, ("--shuffle",), OTHER),
    ("flipped, two passes", flipped, ("--passes", "2"), OTHER),
    ("flipped, raced", flipped, ("--C", "auto"), OTHER),
    ("shorter", lambda text: text[: text.rfind(b"\n", 0, 1_500_000) + 1], (), OTHER),
    (
        "much shorter",
        lambda text: text[: text.rfind(b"\n", 0, 200_000) + 1],
        (),
        "ends before the position that the run of the checkpoint had reached",
    ),
    ("longer", lambda text: text + lines(40_000, 2), (), OTHER),
]


@pytest.mark.parametrize(("change", "options", "message"), [each[1:] for each in CHANGED], ids=[each[0] for each in CHANGED])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_another_text_is_not_gone_on_with(herd, tmp_path, change, options, message, piped):
    """The digest of what was read is verified while it is read again, however far behind the beginning it was changed."""
    text = lines(40_000)  # more than one piece of a megabyte
    (tmp_path / "t.svm").write_bytes(text)
    source = "-" if piped else "t.svm"
    command = ["nherd-train", source, "--input-format", "svmlight", *(options or ("--C", "1")), "-q", "--checkpoint", "c", "--every", "1"]
    assert herd(*command, "-o", "/dev/full", stdin=text).code == 74
    (tmp_path / "t.svm").write_bytes(change(text))
    ended = herd(*command, "--resume", "-o", "m.h5", stdin=change(text))
    name = "stdin" if piped else "t.svm"
    hint = "hint: give the text that the run began with, or start again without --resume\n"
    assert (ended.code, ended.err) == (65, f"herd nherd-train: {name}: {message}\n{hint}")
    assert not (tmp_path / "m.h5").exists()
    assert (tmp_path / "c").exists()
