"""`--plot animation` of `herd herd` and `--plot filters` of `herd fit-rbm`: small moving pictures, and what is refused before work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.artifacts import Dataset


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Binary images of 4 by 3 pixels: a bar in one of three columns and a pixel beside it, the last row always off."""
    random = np.random.default_rng(0)
    columns = random.integers(0, 3, 60)
    X = np.zeros((60, 4, 3))
    X[np.arange(60)[:, None], np.arange(3), columns[:, None]] = 1
    X[np.arange(60), random.integers(0, 3, 60), (columns + 1) % 3] = 1
    data = Dataset(X.reshape(60, 12), y=columns, image_shape=np.array([4, 3]), units="binary", split=np.arange(60) % 3 // 2 * 2)
    artifacts.save(str(tmp_path / "images.h5"), data, [])
    return tmp_path


def frames_of(path: Path) -> list[np.ndarray]:
    picture = pytest.importorskip("PIL.Image").open(path)
    found = []
    for k in range(picture.n_frames):
        picture.seek(k)
        found.append(np.asarray(picture.convert("RGB")))
    return found


@pytest.mark.parametrize("model", [("--hidden", "4"), ("--model", "mrf"), ("--per-class", "--hidden", "4")])
def test_pseudo_samples_pass_and_change_nothing_of_the_result(herd: Callable, images: Path, model: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one", "two"):
        ended = herd("herd", "images.h5", *model, "--iterations", "60", "--plot", "animation", f"{name}.gif", "-q", "-o", f"{name}.h5")
        assert (ended.code, ended.err) == (0, "")
    assert herd("herd", "images.h5", *model, "--iterations", "60", "-q", "-o", "plain.h5").code == 0
    assert (images / "one.gif").read_bytes() == (images / "two.gif").read_bytes()
    assert (
        artifacts.load(str(images / "one.h5")).value.moments.visible.tolist()
        == artifacts.load(str(images / "plain.h5")).value.moments.visible.tolist()
    )
    frames = frames_of(images / "one.gif")
    assert len(frames) == 40
    assert (images / "one.gif").stat().st_size < 400_000
    assert any((frames[0] != later).any() for later in frames[1:])


def test_filters_while_they_are_learned_begin_pale_and_end_with_the_largest_weight(herd: Callable, images: Path) -> None:
    pytest.importorskip("matplotlib")
    ended = herd("fit-rbm", "images.h5", "--hidden", "4", "--epochs", "200", "-q", "--plot", "filters", "f.gif", "-o", "m.h5")
    assert (ended.code, ended.err) == (0, "")
    frames = frames_of(images / "f.gif")
    assert len(frames) <= 40
    colourful = [int((np.ptp(frame.astype(int), axis=2) > 60).sum()) for frame in frames]
    assert colourful[0] < colourful[-1]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "herd images.h5 --plot film f.gif",
            "herd herd: there is no plot 'film' of herd herd\nhint: use --plot animation FILE.gif; herd eval has",
        ),
        ("fit-rbm images.h5 --plot filters f.png", "herd fit-rbm: f.png: the moving picture needs the suffix .gif\n"),
        ("herd plain.csv --plot animation f.gif", "herd herd: --plot animation needs rows that are images\n"),
        ("fit-rbm plain.csv --plot filters f.gif", "herd fit-rbm: --plot filters needs rows that are images\n"),
        ("fit-rbm images.h5 --layers 2,2 --plot filters f.gif", "herd fit-rbm: --plot and --layers exclude each other\n"),
        (
            "herd images.h5 --per-class --shard 1/2 --plot animation f.gif",
            "herd herd: --plot animation draws one run, so it does not work with --shard\nhint: leave out --plot, or --shard\n",
        ),
        (
            "herd images.h5 --per-class --cluster local:2 --plot animation f.gif",
            "herd herd: --plot animation draws one run, so it does not work with --cluster\nhint: leave out --plot, or --cluster\n",
        ),
        (
            "fit-rbm images.h5 --per-class --shard 1/2 --plot filters f.gif",
            "herd fit-rbm: --plot filters draws one run, so it does not work with --shard\nhint: leave out --plot, or --shard\n",
        ),
        (
            "fit-rbm images.h5 --per-class --cluster local:2 --plot filters f.gif",
            "herd fit-rbm: --plot filters draws one run, so it does not work with --cluster\nhint: leave out --plot, or --cluster\n",
        ),
        (
            "fit-rbm images.h5 --hidden auto --plot filters f.gif",
            "herd fit-rbm: --plot filters needs a number of hidden units, but --hidden auto tries several\nhint: use --hidden N\n",
        ),
    ],
)
def test_what_cannot_move_is_refused(herd: Callable, images: Path, command: str, says: str) -> None:
    pytest.importorskip("matplotlib")
    (images / "plain.csv").write_text("a,b\n" + "0,1\n1,0\n1,1\n" * 20)
    ended = herd(*command.split(), "-o", "out.h5")
    assert ended.code == 2
    assert ended.err.startswith(says)
    assert not (images / "out.h5").exists()
