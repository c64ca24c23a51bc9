"""`herd convert` on images and on columns: what it writes, what it records, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.main import main
from herdcli.rows import image_normalization

SHAPE_HINT = "hint: set the attribute image_shape of /X to the height and width"


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """faces.h5: 4 persons with 4 images of 4 × 6, their mood by number and name, and glasses by number."""
    random = np.random.default_rng(0)
    with h5py.File(tmp_path / "faces.h5", "w") as file:
        file["X"] = random.integers(0, 256, (16, 24), dtype=np.uint8)
        file["X"].attrs.update({"image_shape": [4, 6], "value_range": [0, 255]})
        file["y"] = np.repeat(np.arange(4), 4)
        file["mood"] = np.tile(np.arange(4, dtype=np.uint8), 4)
        file["mood_names"] = np.array(["calm", "glad", "sad", "wink"], dtype=h5py.string_dtype())
        file["glasses"] = np.tile(np.array([0, 0, 1, 1], dtype=np.uint8), 4)
    return tmp_path / "faces.h5"


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., artifacts.Artifact | tuple[int, str]]:
    """convert(file, *options) is what was written, or the exit code and what stderr says."""

    def run(source: Path, *options: object, name: str = "out.h5") -> artifacts.Artifact | tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["convert", str(source), "-q", "-o", str(tmp_path / name), *map(str, options)])
        if ended.value.code:
            return ended.value.code, capsys.readouterr().err.replace(f"{tmp_path}/", "")
        return artifacts.load(str(tmp_path / name))

    return run


def test_steps_are_taken_in_the_order_of_the_paper(faces, convert):
    made = convert(faces, "--equalize", "--mask", "ellipse", "--subsample", 2).value
    with h5py.File(faces) as file:
        small = image_normalization.downsample_images(file["X"][:], (4, 6), 2)
    inside = image_normalization.ellipse_mask((2, 3))
    np.testing.assert_array_equal(
        made.X, image_normalization.equalize_histograms(image_normalization.mask_pixels(small, inside, 0), inside)
    )
    assert made.image_shape.tolist() == [2, 3]
    assert made.value_range.tolist() == [0, 255]


def test_a_file_can_be_the_mask(faces, convert, tmp_path):
    wanted = np.arange(24) % 3 > 0
    np.savez(tmp_path / "mask.npz", X=wanted.reshape(4, 6).astype(np.uint8))
    made = convert(faces, "--mask", tmp_path / "mask.npz")
    assert (made.value.X[:, ~wanted] == 0).all()
    assert made.value.X.dtype == np.uint8
    assert made.history[-1]["parameters"]["mask"] == "file"
    assert [item["role"] for item in made.history[-1]["inputs"]] == ["data", "mask"]


def test_columns_are_kept_by_their_names_in_every_format(faces, convert):
    first = convert(faces, "--keep", "mood", "--keep", "glasses").value
    assert first.columns["mood"][:5].tolist() == ["calm", "glad", "sad", "wink", "calm"]
    np.testing.assert_array_equal(first.columns["glasses"], np.tile([0, 0, 1, 1], 4))
    source = faces.with_name("out.h5")
    for suffix in ("parquet", "npz", "csv"):
        wanted = () if suffix == "parquet" else ("--keep", "mood", "--keep", "glasses")
        convert(source, name=f"next.{suffix}")
        again = convert(source.with_name(f"next.{suffix}"), *wanted, name="back.h5").value
        assert again.X.shape == (16, 24)
        for name in ("mood", "glasses"):
            np.testing.assert_array_equal(again.columns[name], first.columns[name])


def test_a_condition_is_held_out_and_recorded(faces, convert):
    made = convert(faces, "--hold-out", "look:mood=sad,wink", "--seed", 4)
    held = made.value.split == 2
    assert len(np.unique(made.value.y[held])) == 2
    np.testing.assert_array_equal(made.value.columns["probe_set"] == "look", held)
    assert set(made.value.columns["mood"][held]) == {"sad", "wink"}
    assert made.history[-1]["parameters"]["hold_outs"] == ["look:mood=sad,wink"]


def test_a_split_is_drawn_anew(faces, convert):
    splits = [convert(faces, "--split", "2,0,2", "--seed", seed).value.split for seed in (0, 0, 1)]
    assert np.bincount(splits[0]).tolist() == [8, 0, 8]
    np.testing.assert_array_equal(splits[0], splits[1])
    assert (splits[0] != splits[2]).any()


def test_rows_in_no_part_are_left_out(faces, convert):
    made = convert(faces, "--split", "1,0,2", "--keep", "glasses").value
    assert made.X.shape == (12, 24)
    assert np.bincount(made.split).tolist() == [4, 0, 8]
    whole = convert(faces, "--keep", "glasses").value
    for row, person, glasses in zip(made.X, made.y, made.columns["glasses"], strict=True):
        index = np.flatnonzero((row == whole.X).all(axis=1))
        assert (whole.y[index], whole.columns["glasses"][index]) == (person, glasses)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--subsample", 4], 65, "faces.h5: images of 4×6 pixels cannot be cut into blocks of 4×4"),
        (
            ["--mask", "ellipse:2,1"],
            2,
            "Invalid value for '--mask': 'ellipse:2,1' is not of the form ellipse:ACROSS,DOWN with shares above 0",
        ),
        (["--mask", "ellipse:1"], 2, "Invalid value for '--mask': 'ellipse:1' is not of the form ellipse:ACROSS,DOWN"),
        (["--mask", "short.npz"], 65, "short.npz: has 3 entries, but the images have 24 pixels"),
        (["--mask", "zero.npz"], 65, "zero.npz: the mask is 0 everywhere, so no pixels are left"),
        (["--mask", "no.npz"], 66, "no.npz: there is no such file"),
        (["--keep", "hat"], 2, "faces.h5: has no extra column 'hat'"),
        (["--hold-out", "mood="], 2, "Invalid value for '--hold-out': 'mood=' is not of the form [NAME:]COLUMN[=VALUE,…]"),
        (
            ["--hold-out", "mood=merry"],
            65,
            "faces.h5: --hold-out mood leaves nothing to test: no label has both a held-out row and at least 2 other rows",
        ),
        (["--split", "9,0,0"], 65, "--split: asks for 9 rows, but class 0 has only 4"),
    ],
)
def test_what_cannot_be_done_is_refused(faces, convert, tmp_path, options, code, says):
    np.savez(tmp_path / "short.npz", X=np.ones((1, 3)))
    np.savez(tmp_path / "zero.npz", X=np.zeros((1, 24)))
    named = [str(tmp_path / option) if str(option).endswith(".npz") else option for option in options]
    found = convert(faces, *named)
    assert found[0] == code
    assert found[1].startswith(f"herd convert: {says}")
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(("option", "named"), [(["--subsample", 2], "--subsample"), (["--mask", "ellipse"], "--mask ellipse")])
def test_rows_that_are_no_images_are_refused(tmp_path, convert, option, named):
    np.savez(tmp_path / "plain.npz", X=np.ones((3, 4)), y=np.arange(3))
    assert convert(tmp_path / "plain.npz", *option) == (
        65,
        f"herd convert: plain.npz: has no image_shape, which {named} needs\n{SHAPE_HINT}\n",
    )


def test_indices_without_a_name_are_refused(faces, convert):
    with h5py.File(faces, "a") as file:
        file["mood"][3] = 9
    assert convert(faces, "--keep", "mood") == (
        65,
        "herd convert: faces.h5: /mood has values that are not indices of the 4 entries of /mood_names\n",
    )


def test_edited_columns_of_another_length_are_refused(faces, convert, tmp_path):
    from herdcli.artifacts.sealed import sealing

    convert(faces, "--keep", "glasses")
    path = tmp_path / "out.h5"
    with h5py.File(path, "a") as file:
        del file["columns/glasses"]
        file["columns/glasses"] = np.zeros(3)
    sealing.write_new_seal(str(path))
    assert convert(path, name="again.h5") == (65, "herd convert: out.h5: /columns/glasses has the shape (3,), but /X has 16 rows\n")
