"""Converters: equal to the finished sets where the published files are there, and right on small files of the same form."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from herdcli.datasets import registry
from herdcli.datasets.digests import arrays_digest
from herdcli.datasets.hdf5_layout import read_arrays, read_svmlight, write_arrays
from herdcli.datasets.sets import mnist, music, newsgroups, orl, patches, reviews, speech
from herdcli.datasets.word_counts import count_words, split_words, split_words_and_pairs
from herdcli.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [Path(os.environ.get("HERD_DATA", "none")), ROOT.parent / "shared" / "data", ROOT.parents[1] / "shared" / "data"]
ENTRIES = [entry for entry in registry.all_datasets() if not entry.is_folder]


def finished(entry):
    """The arrays of the finished set; skips where it is absent."""
    for folder in FOLDERS:
        path = folder / entry.file
        if path.exists():
            return read_arrays(path) if path.suffix == ".h5" else read_svmlight(path)
    pytest.skip(f"{entry.file} is neither in $HERD_DATA nor in ../shared/data")


def published(entry):
    """The published files; skips where one is absent."""
    for folder in FOLDERS:
        for place in (folder / "raw", folder / "sources"):
            found = {source.file: place / source.file for source in entry.sources}
            if all(path.exists() for path in found.values()):
                return found
    pytest.skip(f"the published files of {entry.name} are not there")


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def same(ours, theirs):
    """Names of the arrays that differ."""
    return [
        name
        for name in sorted({*ours, *theirs})
        if name not in ours
        or name not in theirs
        or type(ours[name]) is not type(theirs[name])
        or getattr(ours[name], "dtype", None) != getattr(theirs[name], "dtype", None)
        or not np.array_equal(ours[name], theirs[name])
    ]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_digest_is_that_of_the_finished_set(entry):
    assert arrays_digest(finished(entry)) == entry.digest


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.convert], ids=lambda entry: entry.name)
def test_the_published_files_become_the_finished_set(entry):
    for package in entry.packages:
        pytest.importorskip(package)
    assert same(entry.convert(published(entry)), finished(entry)) == []


def test_arrays_are_read_as_they_were_written(tmp_path):
    entry = registry.find_dataset("r8")
    arrays = {"X/data": np.arange(3, dtype=np.uint16), "X/indptr": np.array([0, 3]), "vocab": ["a", "β"], "y": np.zeros((2, 2), np.float32)}
    write_arrays(tmp_path / "set.h5", entry, arrays)
    assert same(read_arrays(tmp_path / "set.h5"), arrays) == []


def test_the_digest_sees_names_types_shapes_and_values():
    base = {"a": np.arange(6, dtype=np.int32), "b": ["x", "y"]}
    other = [
        {"c": base["a"], "b": base["b"]},
        {"a": base["a"].astype(np.int64), "b": base["b"]},
        {"a": base["a"].reshape(2, 3), "b": base["b"]},
        {"a": base["a"] + 1, "b": base["b"]},
        {"a": base["a"], "b": ["x", "z"]},
        {"a": base["a"], "b": ["xy", ""]},
    ]
    digests = {arrays_digest(each) for each in [base, *other]}
    assert len(digests) == 1 + len(other)
    assert arrays_digest({"a": base["a"].astype(">i4"), "b": ["x", "y"]}) == arrays_digest(base)
    assert arrays_digest({"a": np.repeat(base["a"], 2)[::2], "b": ["x", "y"]}) == arrays_digest(base)


# Small files of the same form ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"<html>sign in</html>", b"", b"PK\x03\x04 half of an archive"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / orl.FILE).write_bytes(content)
    with pytest.raises(DataError, match="is not a zip or tar archive"):
        orl.convert({orl.FILE: tmp_path / orl.FILE})


def pgm(picture, comment=b""):
    height, width = picture.shape
    return b"P5\n" + comment + f"{width} {height}\n255\n".encode() + picture.tobytes()


def test_orl(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (400, 4, 3)).astype(np.uint8)
    names = [f"att_faces/s{k // 10 + 1}/{k % 10 + 1}.pgm" for k in range(400)]
    files = dict(sorted(zip(names, map(pgm, pictures), strict=True))) | {"att_faces/README": b"faces"}
    files["att_faces/s1/1.pgm"] = pgm(pictures[0], b"# a comment\n")
    found = orl.convert({orl.FILE: zipped(tmp_path / orl.FILE, files)})
    np.testing.assert_array_equal(found["X"], pictures.reshape(400, 12))
    assert (found["y"][:11].tolist(), len(found["glasses"])) == ([0] * 10 + [1], 400)


def test_orl_of_the_pictures_of_the_finished_set(tmp_path):
    entry = registry.find_dataset("orl")
    theirs = finished(entry)
    files = {f"orl/s{k // 10 + 1}/{k % 10 + 1}.pgm": pgm(row.reshape(112, 92)) for k, row in enumerate(theirs["X"])}
    assert same(orl.convert({orl.FILE: zipped(tmp_path / orl.FILE, files)}), theirs) == []


def idx(values):
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def png(picture):
    stream = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def test_mnist_of_idx_files_and_of_pictures(tmp_path):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (15, 28, 28)).astype(np.uint8)
    labels = random.integers(0, 10, 15).astype(np.uint8)
    files, pictures = {}, {}
    for part, folder, rows in (("train", "train", slice(0, 12)), ("t10k", "test", slice(12, 15))):
        for name, values in ((f"{part}-images-idx3-ubyte.gz", images[rows]), (f"{part}-labels-idx1-ubyte.gz", labels[rows])):
            files[name] = tmp_path / name
            files[name].write_bytes(gzip.compress(idx(values)) if part == "train" else idx(values))  # packed or not
        for index, (image, label) in enumerate(zip(images[rows], labels[rows], strict=True)):
            pictures[f"mnist-pngs/{folder}/{label}/{index}.png"] = png(image)
    found = mnist.convert(files)
    np.testing.assert_array_equal(found["X"], images.reshape(15, 784))
    assert found["y"].tolist() == labels.tolist()
    assert found["split"].tolist() == [0] * 12 + [1] * 3
    assert same(mnist.convert_pictures(zipped(tmp_path / "pictures.zip", pictures)), found) == []
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"<html>")
    with pytest.raises(DataError, match="is not an IDX file of bytes"):
        mnist.convert(files)


def jpeg(picture):
    stream = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(picture).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def test_patches_are_cut_where_they_say(tmp_path):
    smooth = np.add.outer(np.arange(40), 2 * np.arange(60)).astype(np.uint8)  # 40 high, 60 wide
    files = {"BSDS500-x/BSDS500/data/images/train/b.jpg": jpeg(smooth.T), "BSDS500-x/BSDS500/data/images/train/a.jpg": jpeg(255 - smooth)}
    files["BSDS500-x/BSDS500/data/images/test/c.jpg"] = jpeg(smooth)
    found = patches.convert({patches.FILE: zipped(tmp_path / patches.FILE, files)})
    assert found["X"].shape == (122_880, 256)
    X, image, row, col = (found[name][::100] for name in ("X", "image", "row", "col"))
    assert (image.max(), row.max(), col.max()) == (1, 40 - 16, 60 - 16)
    inside = np.add.outer(np.arange(16), 2 * np.arange(16)).ravel() + (row + 2 * col)[:, None]
    expected = np.where(image[:, None] == 0, 255 - inside, inside)  # the upright picture b is transposed
    assert np.abs(X.astype(int) - expected).max() <= 4


def test_places_of_patches_are_those_of_the_finished_set(tmp_path):
    theirs = finished(registry.find_dataset("patches"))
    lying, upright = jpeg(np.zeros((321, 481), np.uint8)), jpeg(np.zeros((481, 321), np.uint8))
    files = {f"x/BSDS500/data/images/train/{k}.jpg": upright if k % 3 else lying for k in range(200)}
    found = patches.convert({patches.FILE: zipped(tmp_path / patches.FILE, files)})
    assert same({name: found[name] for name in ("image", "row", "col")}, {name: theirs[name] for name in ("image", "row", "col")}) == []


def wav(samples, rate=8000):
    from scipy.io import wavfile

    stream = io.BytesIO()
    wavfile.write(stream, rate, samples)
    return stream.getvalue()


def test_segments_of_speech_are_cut_where_they_say(tmp_path):
    lengths = {(speaker, digit, number): 150 + 40 * number for speaker in ("ann", "bob") for digit in (0, 7) for number in (2, 10)}
    begin = {key: 1000 * place for place, key in enumerate(sorted(lengths))}
    files = {
        f"digits-x/recordings/{digit}_{speaker}_{number}.wav": wav(
            np.arange(begin[speaker, digit, number], begin[speaker, digit, number] + length, dtype=np.int16)
        )
        for (speaker, digit, number), length in lengths.items()
    }
    files["digits-x/recordings/README"] = b"spoken"
    found = speech.convert({speech.FILE: zipped(tmp_path / speech.FILE, files)})
    np.testing.assert_array_equal(found["X"][:, 0], found["recording"] * 1000 + found["start"])
    assert (np.diff(found["X"], axis=1) == 1).all()
    keys = sorted(lengths)
    assert found["speaker"].tolist() == [["ann", "bob"].index(keys[k][0]) for k in found["recording"]]
    assert found["y"].tolist() == [keys[k][1] for k in found["recording"]]
    places = np.array([lengths[key] - 99 for key in keys])
    np.testing.assert_allclose(np.bincount(found["recording"]) / 50_000, places / places.sum(), atol=0.01)
    assert all(found["start"][found["recording"] == k].max() == places[k] - 1 for k in range(len(keys)))


def test_excerpts_of_music(tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    monkeypatch.setattr(music, "RECORDINGS", (("a.ogg", None, "CC0", (0.5, 1.0)), ("b.ogg", None, "CC BY 3.0", (0.25, 1.25))))
    monkeypatch.setattr(music, "LENGTH", 4410)
    files = {}
    for name, rate, pitch in (("a.ogg", 44_100, 220.0), ("b.ogg", 22_050, 330.0)):
        files[name] = tmp_path / name
        tone = 0.3 * np.sin(2 * np.pi * pitch * np.arange(2 * rate) / rate)
        soundfile.write(files[name], np.stack([tone, tone], axis=1), rate, format="OGG", subtype="VORBIS")
    found = music.convert(files)
    assert (found["X"].shape, found["X"].dtype) == ((4410, 4), np.float32)
    np.testing.assert_allclose(found["X"].std(axis=0), 1.0, atol=1e-5)
    spectra = np.abs(np.fft.rfft(found["X"], axis=0))
    np.testing.assert_allclose(np.argmax(spectra, axis=0) * 8820 / 4410, [220, 220, 330, 330])
    np.testing.assert_allclose(found["kurtosis"], 1.5, atol=0.05)  # of a sine
    assert found["file"] == ["a.ogg", "a.ogg", "b.ogg", "b.ogg"]
    assert found["licence_per_source"] == ["CC0", "CC0", "CC BY 3.0", "CC BY 3.0"]


def test_counts_of_words():
    found = count_words([split_words("The cat, the CAT's x2 dog"), split_words("a dog saw the bird"), split_words("")], min_documents=2)
    assert found["vocab"] == ["dog", "the"]
    assert found["X/indptr"].tolist() == [0, 2, 4, 4]
    assert found["X/indices"].tolist() == [0, 1, 0, 1]
    assert found["X/data"].tolist() == [1, 2, 1, 1]
    assert split_words_and_pairs("I am so happy") == ["am", "so", "happy", "am_so", "so_happy"]


def test_newsgroups(tmp_path):
    posts = {
        "20news-bydate-train/sci.space/7": "From: someone@moon.org\nSubject: orbit and moon\nLines: 2\n\nmoon orbit\n\nLines: orbit",
        "20news-bydate-train/alt.cats/12": "Subject: cats\n\ncats sleep",
        "20news-bydate-test/alt.cats/9": "Subject: Re: cats\r\nFrom: x\r\n\r\ncats orbit",
    }
    path = tmp_path / newsgroups.FILE
    with tarfile.open(path, "w:gz") as archive:
        for name, text in posts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode("latin-1")))
    found = newsgroups.convert({newsgroups.FILE: path})
    assert found["class_names"] == ["alt.cats", "sci.space"]
    assert (found["y"].tolist(), found["split"].tolist()) == ([0, 0, 1], [1, 0, 0])
    assert found["vocab"] == ["cats", "orbit"]
    assert found["X/data"].tolist() == [2, 1, 2, 3]


def test_reviews(tmp_path):
    def element(title, text, rating):
        return f"<review>\n<rating>\n{rating}\n</rating>\n<title>\n{title}\n</title>\n<review_text>\n{text}\n</review_text>\n</review>\n"

    files = {}
    for domain in reviews.DOMAINS:
        for opinion in reviews.OPINIONS:
            name = reviews.review_file_name(domain, opinion)
            files[name] = tmp_path / name
            title, text = ("Very good", f"indeed & {domain} <i>café</i>") if opinion == "positive" else ("bad", "no good")
            files[name].write_bytes(element(title, text, 5 if opinion == "positive" else 1).encode("latin-1"))
    found = reviews.convert(files)
    assert found["domain_names"] == ["books", "dvd", "electronics", "kitchen"]
    assert found["y"].tolist() == [1, 0] * 4
    assert found["domain"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert found["vocab"] == ["bad", "bad_no", "caf", "good", "good_indeed", "indeed", "no", "no_good", "very", "very_good"]
