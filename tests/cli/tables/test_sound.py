"""Sound in and out: channels are columns, rates are kept, and what WAV cannot hold is told."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import wavfile

from herdcli.artifacts import load
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats import audio

TIME = np.arange(2000) / 8000.0
RANDOM = np.random.default_rng(0)


def held(name, X, **others):
    with h5py.File(name, "w") as file:
        file["X"] = X
        for key, item in others.items():
            file[key] = item


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "float32"])
def test_samples_of_every_type_come_back_as_they_were_with_their_rate(run, kind):
    X = np.column_stack([np.sin(TIME * 900), np.cos(TIME * 500)])
    X = X.astype(kind) if kind == "float32" else np.round(100 + 100 * X).astype(kind)
    wavfile.write("in.wav", 8000, X)
    assert run("convert", "in.wav", "-o", "in.h5").code == 0
    value = load("in.h5").value
    assert (value.sample_rate, value.X.dtype.name) == (8000, kind)
    told = run("convert", "in.h5", "-o", "out.wav")
    assert told.code == 0
    assert told.err.splitlines()[0].startswith("convert: 2000 rows × 2 columns"), told.err
    rate, back = wavfile.read("out.wav")
    assert rate == 8000
    assert back.dtype == X.dtype
    assert (back == X).all()
    assert Path("in.wav").read_bytes() == Path("out.wav").read_bytes()


def test_sources_of_a_recording_are_written_as_one_of_its_rate(run):
    """Two voices mixed into two channels, separated, written, and turned back into the channels."""
    voices = np.column_stack([np.sign(np.sin(TIME * 1900)) * 0.6, RANDOM.laplace(size=2000) * 0.05])
    mixed = np.round(12_000 * voices @ np.array([[1.0, 0.4], [0.7, 1.0]])).clip(-32_768, 32_767).astype(np.int16)
    wavfile.write("room.wav", 8000, mixed)
    assert run("ica", "room.wav", "-o", "voices.h5").code == 0
    told = run("apply", "voices.h5", "room.wav", "-o", "voices.wav")
    assert told.code == 0, told.err
    rate, found = wavfile.read("voices.wav")
    assert (rate, found.dtype.name, found.shape) == (8000, "float32", (2000, 2))
    assert np.abs(found).max() == 1.0
    outputs = load("voices.h5").value.features(mixed)
    peak = np.abs(outputs).max()
    np.testing.assert_allclose(found * peak, outputs, rtol=1e-6, atol=1e-6)
    assert f"apply: the largest sample is {peak:.4g}: all are divided by it, because WAV holds −1 to 1\n" in told.err
    likeness = np.abs(np.corrcoef(found.T, voices.T)[:2, 2:]).max(axis=0)
    assert likeness.min() > 0.99
    assert run("apply", "voices.h5", "voices.wav", "--want", "rows", "-o", "back.wav").code == 0
    assert wavfile.read("back.wav")[0] == 8000


def test_rows_without_a_rate_and_labels_are_told_of(run):
    held("in.h5", RANDOM.uniform(-0.5, 0.5, (50, 2)), y=np.arange(50) % 2, split=np.zeros(50, np.uint8))
    told = run("convert", "in.h5", "-o", "out.wav")
    assert told.code == 0
    assert "convert: WAV cannot hold labels and splits: they are left out\n" in told.err
    assert "convert: no sampling rate is known: 44 100 Hz is written\n" in told.err
    assert "divided" not in told.err
    assert wavfile.read("out.wav")[0] == 44_100


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (np.array([[0], [1]], bool), "int16"),
        (np.array([[-3], [40_000]], np.int64), "int32"),
        (np.array([[-300], [400]], np.int64), "int16"),
        (np.array([[1 << 40], [0]], np.int64), "float32"),
        (np.array([[65_535], [0]], np.uint16), "int32"),
    ],
)
def test_whole_numbers_take_the_smallest_samples_that_hold_them(X, kind):
    samples, peak = audio._scale_samples(X)
    assert samples.dtype.name == kind
    assert (samples * peak == X).all()


def test_what_does_not_fit_is_refused(run, monkeypatch):
    from scipy import sparse

    from herdcli.artifacts import load_save

    monkeypatch.setattr(audio, "MOST_BYTES", 100)
    held("in.h5", np.zeros((30, 2), np.int16) + np.arange(30, dtype=np.int16)[:, None])
    told = run("convert", "in.h5", "-o", "out.wav")
    assert (told.code, told.err.splitlines()[-2:]) == (
        65,
        [
            "herd convert: in.h5: 30 samples of 2 channels do not fit into a WAV file, which holds at most 4 GB and 65 535 channels",
            "hint: write HDF5, which has no such limits: -o FILE.h5",
        ],
    )
    with pytest.raises(audio.DataError, match="/X is sparse, but WAV holds dense rows only"):
        load_save.save("s.wav", Dataset(sparse.csr_matrix(np.eye(3))), [])
    assert not Path("out.wav").exists()
    assert not Path("s.wav").exists()
    assert run("ica", "in.h5", "-o", "m.wav").code == 2


def flac(name):
    soundfile = pytest.importorskip("soundfile", reason="the extra sound is not installed")
    X = np.round(20_000 * np.column_stack([np.sin(TIME * 900), np.cos(TIME * 500)])).astype(np.int16)
    soundfile.write(name, X, 8000)
    return X


@pytest.mark.parametrize("name", ["in.flac", "in.aiff"])
def test_other_formats_are_read_by_soundfile(run, name):
    X = flac(name)
    assert run("convert", name, "-o", "in.h5").code == 0
    value = load("in.h5").value
    assert value.sample_rate == 8000
    assert (value.X == X).all()


def test_codings_of_wav_that_scipy_does_not_know_are_read_by_soundfile(run):
    soundfile = pytest.importorskip("soundfile", reason="the extra sound is not installed")
    soundfile.write("in.wav", np.sin(TIME * 900), 8000, subtype="ULAW")
    assert run("convert", "in.wav", "-o", "in.h5").code == 0
    np.testing.assert_allclose(load("in.h5").value.X[:, 0], np.sin(TIME * 900), atol=0.03)


def test_without_soundfile_the_way_out_is_told(run, monkeypatch):
    Path("in.flac").write_bytes(b"fLaC" + bytes(200))
    chunk = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 7, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", 4) + bytes(4)
    Path("in.wav").write_bytes(b"RIFF" + struct.pack("<I", len(chunk)) + chunk)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "soundfile" else real(name, *rest))
    told = run("ica", "in.flac", "-o", "a.h5")
    assert (told.code, told.err) == (
        2,
        "herd ica: in.flac: to read audio files other than WAV, herd needs the package soundfile\nhint: pip install 'herdcli[sound]'\n",
    )
    told = run("ica", "in.wav", "-o", "a.h5")
    assert told.code == 65
    assert told.err.startswith("herd ica: in.wav: the WAV file cannot be read (Unknown wave file format: MULAW")


def test_a_damaged_sound_file_is_refused(run):
    pytest.importorskip("soundfile", reason="the extra sound is not installed")
    Path("in.flac").write_bytes(b"fLaC" + bytes(200))
    told = run("ica", "in.flac", "-o", "a.h5")
    assert told.code == 65
    assert told.err.startswith("herd ica: in.flac: the sound file cannot be read (")
    assert "Traceback" not in told.err


def test_the_reason_of_libsndfile_has_no_address(run):
    pytest.importorskip("soundfile")
    form = struct.pack("<HHIIHH", 3, 2, 8000, 32000, 4, 16)  # floats of 16 bits
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 800) + bytes(800)
    Path("in.wav").write_bytes(b"RIFF" + struct.pack("<I", 0) + body)
    told = run("ica", "in.wav")
    assert told.code == 65
    assert told.err.startswith("herd ica: in.wav: the WAV file cannot be read (libsndfile gives no reason.)\n")
