"""Bad input: one line that names file, place and remedy, the right exit code, and no output file."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

RANGE = (
    "hint: for whole numbers use --visible-units poisson; or declare the lowest and highest possible value; those seen are --range 0,6; "
    "for real numbers use --visible-units gaussian --standardize\n"
)

# name -> (changes to the arrays of small.h5, further options, what stderr says)
ARRAYS = {
    "nan": (
        lambda rows: {"X": np.where(np.arange(240).reshape(40, 6) == 103, np.nan, rows["X"])},
        [],
        "/X has 1 NaN row (first: row 17)\nhint: --missing drop leaves such rows out, --missing mean fills in the column's mean\n",
    ),
    "infinity": (
        lambda rows: {"X": np.where(np.arange(240).reshape(40, 6) == 103, np.inf, rows["X"])},
        [],
        "/X has 1 infinite row (first: row 17)\nhint: remove the rows or fill them in\n",
    ),
    "no labels": (
        lambda rows: {"y": None},
        ["--per-class"],
        "there are no labels, which --per-class needs\nhint: name the column of labels: --label COLUMN\n",
    ),
    "class without training rows": (
        lambda rows: {"split": np.where(rows["y"] == 1, 2, 0).astype(np.uint8)},
        ["--per-class"],
        "class '1' has no training rows\nhint: put more rows into the training part: --split .8,.1,.1\n",
    ),
    "lengths differ": (lambda rows: {"y": rows["y"][:39]}, [], "/y has 39 rows, but /X has 40\nhint: give one entry for each row of /X\n"),
    "no rows": (
        lambda rows: {"X": rows["X"][:0], "y": rows["y"][:0], "split": rows["split"][:0]},
        [],
        "/X has 0 rows and 6 columns: there is nothing to read\n",
    ),
    "no training rows": (
        lambda rows: {"split": np.full(40, 2, np.uint8)},
        [],
        "the split has no training rows\nhint: put more rows into the training part: --split .8,.1,.1\n",
    ),
    "no columns": (lambda rows: {"X": rows["X"][:, :0]}, [], "/X has 40 rows and 0 columns: there is nothing to read\n"),
    "scalar": (lambda rows: {"X": np.float64(1), "y": None, "split": None}, [], "dataset 'X' has 0 dimensions, expected 2 (n, d)\n"),
    "complex": (
        lambda rows: {"X": rows["X"] * 1j},
        [],
        "/X holds complex numbers; herd reads numbers, booleans and strings\nhint: write the data as one of these types\n",
    ),
    "strings": (
        lambda rows: {"X": np.full((40, 6), b"on")},
        [],
        "dataset 'X' has type <U2, expected float or signed integer or unsigned integer or boolean\n",
    ),
    "compound": (
        lambda rows: {"X": np.zeros(40, dtype=[("a", "f4"), ("b", "f4")])},
        [],
        "/X holds compound values; herd reads numbers, booleans and strings\nhint: write the data as one of these types\n",
    ),
    "grey without range": (
        lambda rows: {"X": rows["X"] * np.arange(1, 7)},
        [],
        "/X has more than two values and no value_range, so no threshold can be set\n" + RANGE,
    ),
    "outside declared range": (
        lambda rows: {"X": rows["X"] * np.arange(1, 7)},
        ["--range", "0,5"],
        "/X has values from 0 to 6, outside the value range 0 to 5\nhint: declare another one: --range 0,6\n",
    ),
    "split code": (
        lambda rows: {"split": np.full(40, 7, np.uint8)},
        [],
        "/split has the value 7 in row 0, but must be 0 (train), 1 (valid) or 2 (test)\nhint: write 0, 1 or 2 for each row\n",
    ),
    "fractional labels": (
        lambda rows: {"y": rows["y"] + 0.5},
        ["--per-class"],
        "/y has the value 0.5 in row 0, but labels must be whole numbers or text\n"
        "hint: use herd regress or herd nherd-train --task regression to predict numbers\n",
    ),
    "no X": (
        lambda rows: {"X": None},
        [],
        "has no dataset /X (it has /split, /y)\nhint: a data set keeps its rows in /X (n, d) and its labels in /y (n)\n",
    ),
    "empty file": (
        lambda rows: {"X": None, "y": None, "split": None},
        [],
        "has no dataset /X (it has nothing)\nhint: a data set keeps its rows in /X (n, d) and its labels in /y (n)\n",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(herd, quick, rows, write, tmp_path, name):
    changes, options, message = ARRAYS[name]
    arrays = {key: values for key, values in (rows | changes(rows)).items() if values is not None}
    write(tmp_path / "bad.h5", arrays)
    code = 2 if name == "grey without range" else 65
    refused(herd, tmp_path, quick("bad.h5", *options), code, f"herd fit-rbm: bad.h5: {message}")


def test_split_asks_for_more_rows_than_there_are(herd, quick, small, tmp_path):
    message = (
        "herd fit-rbm: --split: asks for 40 rows, but class 0 has only 20\nhint: use at most 20 rows per class in all parts together\n"
    )
    refused(herd, tmp_path, quick("small.h5", "--split", "30,5,5"), 65, message)


def refused(herd, folder: Path, arguments: list, code: int, message: str, stdin: bytes = b"") -> None:
    """The command ends with this code, says exactly this, and makes no file."""
    before = sorted(folder.iterdir())
    ended = herd(*arguments, "-o", "out.h5", stdin=stdin)
    assert ended.err == message
    assert (ended.code, ended.out) == (code, b"")
    assert sorted(folder.iterdir()) == before


def test_empty_stdin(herd, quick, tmp_path):
    message = "herd fit-rbm: stdin: nothing arrived on stdin: did the command before the pipe fail?\n"
    refused(herd, tmp_path, quick(), 66, message)


def test_missing_file(herd, quick, tmp_path):
    refused(herd, tmp_path, quick("missing.h5"), 66, "herd fit-rbm: missing.h5: there is no such file\n")


def test_directory(herd, quick, tmp_path):
    (tmp_path / "folder").mkdir()
    refused(herd, tmp_path, quick("folder"), 66, "herd fit-rbm: folder: is a directory\nhint: give the name of a file in it\n")


def test_empty_file(herd, quick, tmp_path):
    (tmp_path / "empty.h5").touch()
    refused(
        herd,
        tmp_path,
        quick("empty.h5"),
        65,
        "herd fit-rbm: empty.h5: the file is empty\nhint: check whether the command that wrote it was interrupted\n",
    )


def test_neither_format(herd, quick, tmp_path):
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 8)
    message = (
        "noise: the format of the file is not recognised\n"
        "hint: known formats: hdf5, parquet, npz, npy, csv, svmlight, arrow, excel, idx, json, matlab, wav, "
        "also in gzip, bzip2, xz or zstd; text must be UTF-8\n"
    )
    refused(herd, tmp_path, quick("noise"), 65, f"herd fit-rbm: {message}")


# name -> (command line, file at fault, its kind)
WRONG_KIND = {
    "a model to learn from": (["fit-rbm", "model.h5"], "model.h5", "rbm"),
    "data to merge": (["merge", "small.h5", "model.h5"], "small.h5", "dataset"),
    "model as data": (["apply", "model.h5", "model.h5"], "model.h5", "rbm"),
}


@pytest.mark.parametrize("name", WRONG_KIND)
def test_wrong_kind(herd, model, tmp_path, name):
    arguments, file, kind = WRONG_KIND[name]
    before = sorted(tmp_path.iterdir())
    ended = herd(*arguments, "-o", "out.h5")
    wanted = "but only classifiers and shards can be merged" if arguments[0] == "merge" else rf"but must be of kind (?!{kind}\b)[a-z, -]+"
    assert re.fullmatch(rf"herd {arguments[0]}: {file}: is of kind {kind}, {wanted}\n", ended.err)
    assert (ended.code, ended.out) == (65, b"")
    assert sorted(tmp_path.iterdir()) == before


# ---- damage ----


def spread(size: int, count: int) -> list[int]:
    """Places all over a file, the first and last bytes and both sides of the seal's end among them."""
    random = np.random.default_rng(size)
    return sorted({0, 1, 13, 14, 100, 510, 511, 512, 513, 519, 520, size - 2, size - 1, *random.integers(0, size, count).tolist()})


def damaged_files(folder: Path, whole: bytes) -> list[str]:
    """Copies of a file cut anywhere, and copies with one bit turned."""
    cuts = {f"cut{place}": whole[:place] for place in spread(len(whole), 60) if place}
    turned = {
        f"bit{place}": whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :] for place in spread(len(whole), 120)
    }
    longer = {"longer": whole + b"\0"}
    for name, contents in (cuts | turned | longer).items():
        (folder / name).write_bytes(contents)
    return [*cuts, *turned, *longer]


@pytest.mark.parametrize("suffix", ["h5", "parquet"])
def test_check_names_every_cut_and_every_turned_bit(herd, model, tmp_path, suffix):
    source = model
    if suffix == "parquet":
        assert herd("convert", "small.h5", "-o", "whole.parquet").code == 0
        source = tmp_path / "whole.parquet"
    assert herd("check", source.name).err == ""
    folder = tmp_path / "damaged"
    folder.mkdir()
    names = damaged_files(folder, source.read_bytes())
    ended = herd("check", source.name, *(f"damaged/{name}" for name in names))
    accused = [line.split(": ")[1] for line in ended.err.splitlines() if not line.startswith("hint: ")]
    assert ended.code == 65
    assert ended.out == b""
    assert accused == [f"damaged/{name}" for name in names]


@pytest.mark.parametrize("place", [5, 600, -5])
def test_damaged_input_is_not_used(herd, quick, digits_bytes, tmp_path, place):
    bad = bytearray(digits_bytes)
    bad[place] ^= 4
    (tmp_path / "bad.h5").write_bytes(bad)
    for arguments, stdin in ((["bad.h5"], b""), ([], bytes(bad))):
        ended = herd(*quick(*arguments, "-o", "out.h5"), stdin=stdin)
        assert ended.code == 65
        assert ended.err.startswith(f"herd fit-rbm: {arguments[0] if arguments else 'stdin'}: ")
        assert "\nhint: " in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.h5"]


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_truncated_pipe(herd, quick, digits_bytes, tmp_path, share):
    cut = digits_bytes[: int(len(digits_bytes) * share)]
    ended = herd(*quick("-o", "out.h5"), stdin=cut)
    assert ended.code == 65
    assert ended.err.startswith("herd fit-rbm: stdin: the file ")
    assert list(tmp_path.iterdir()) == []


def test_seal_broken_on_purpose_and_sealed_again(herd, model, tmp_path):
    with h5py.File(model, "r+") as file:
        file["W"][0, 0, 0] = 1.5
    ended = herd("eval", "model.h5")
    assert ended.code == 65
    assert ended.err.splitlines()[-1].endswith("herd seal FILE")
    assert herd("seal", "model.h5").code == 0
    assert herd("check", "model.h5").code == 0
    assert herd("eval", "model.h5").code == 0


def test_check_of_an_unsealed_data_set(herd, small):
    ended = herd("check", "small.h5")
    assert (ended.code, ended.out) == (0, b"")
    assert len(ended.err.splitlines()) == 1
    assert "small.h5" in ended.err


def test_check_of_several_takes_the_worst_code(herd, small, model, tmp_path):
    (tmp_path / "bad.h5").write_bytes(model.read_bytes()[:-1])
    assert herd("check", "model.h5", "bad.h5", "small.h5").code == 65
    missing = herd("check", "-q", "model.h5", "missing.h5")
    assert (missing.code, missing.err) == (66, "herd check: missing.h5: there is no such file\n")


# ---- HDF5 files that somebody else made ----


def external_link(path: Path) -> None:
    with h5py.File(path.with_name("other.h5"), "w") as file:
        file["X"] = np.zeros((4, 2))
    with h5py.File(path, "w") as file:
        file["X"] = h5py.ExternalLink("other.h5", "/X")


def soft_link(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["X"] = h5py.SoftLink("/missing")


def external_storage(path: Path) -> None:
    secret = path.with_name("secret")
    secret.write_bytes(bytes(8))
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(4, 2), dtype="u1", external=[(str(secret), 0, 8)])


def virtual(path: Path) -> None:
    layout = h5py.VirtualLayout(shape=(4, 2), dtype="f8")
    layout[:] = h5py.VirtualSource("missing.h5", "X", shape=(4, 2))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("X", layout)


def bomb(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(10**7, 10**7), dtype="f8", chunks=(100, 100))


def unwritten(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(100, 4), dtype="f8")


def zeros_bomb(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=np.zeros((3000, 1000)), compression="gzip", compression_opts=9)


def hard_link_twice(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros((4, 2))
        file["again"] = file["X"]


def references(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros((4, 2))
        file.create_dataset("to", data=file["X"].ref, dtype=h5py.ref_dtype)


COPY = "hint: copy the data into a plain file, for instance with h5repack or h5py\n"
GUARD = {
    external_link: (
        [],
        "/X is a link to another file; herd does not read linked data\n" + COPY,
    ),
    soft_link: (
        [],
        "/X is a soft link to /missing, which does not exist\n" + COPY,
    ),
    external_storage: (
        [],
        "/X keeps its data in another file, which herd does not open\n" + COPY,
    ),
    virtual: (
        [],
        "/X is a virtual dataset, a view of other files; herd does not read linked data\n" + COPY,
    ),
    bomb: (
        ["--max-memory", "1G"],
        "/X: needs 800 TB of memory, more than the 1 GB allowed\nhint: raise --max-memory if the machine has it\n",
    ),
    unwritten: (
        [],
        "/X has no data: the file declares it, but it was never written\n"
        "hint: make the file again: the program that wrote it did not finish\n",
    ),
    zeros_bomb: (
        ["--max-memory", "10M"],
        "/X: needs 24 MB of memory, more than the 10 MB allowed\nhint: raise --max-memory if the machine has it\n",
    ),
    hard_link_twice: (
        [],
        "/again is a hard link to another object of the file; herd does not read linked data\n" + COPY,
    ),
}


@pytest.mark.parametrize("make", GUARD, ids=lambda make: make.__name__)
def test_guard(herd, quick, tmp_path, make):
    options, message = GUARD[make]
    make(tmp_path / "bad.h5")
    refused(herd, tmp_path, quick("bad.h5", *options), 65, f"herd fit-rbm: bad.h5: {message}")


# ---- text and NumPy files ----

# name -> (file name, contents, further options, what stderr says)
TEXTS = {
    "csv with a missing cell": (
        "bad.csv",
        "a,b,y\n1,0,0\n1,,1\n",
        [],
        "column 'b' has 1 missing value (first: line 3)\n"
        "hint: --missing drop leaves such rows out, --missing mean fills in the column's mean\n",
    ),
    "csv with a short row": (
        "bad.csv",
        "a,b,y\n1,0,0\n1,0\n",
        [],
        "line 3 has 2 values, expected 3\nhint: give each line as many values as the first\n",
    ),
    "csv with nan": (
        "bad.csv",
        "a,b,y\n1,0,0\nnan,0,1\n",
        [],
        "column 'a' has 1 missing value (first: line 3)\n"
        "hint: --missing drop leaves such rows out, --missing mean fills in the column's mean\n",
    ),
    "csv without rows": (
        "bad.csv",
        "a,b,y\n",
        [],
        "has a header but no rows\nhint: check whether the command that wrote it was interrupted\n",
    ),
    "csv without that label": (
        "bad.csv",
        "a,b,y\n1,0,0\n1,1,1\n",
        ["--label", "class"],
        "has no column or array 'class' for the labels\nhint: it has a, b, y\n",
    ),
    "svmlight with an index twice": (
        "bad.svm",
        "1 1:1 1:1\n",
        [],
        "a row has the same feature index twice\nhint: give each index one value in a row\n",
    ),
    "svmlight with a word": (
        "bad.svm",
        "1 1:1 2:x\n",
        [],
        "line 1 has '2:x' where index:value was expected\nhint: if this is not svmlight, use --input-format csv\n",
    ),
    "svmlight with a huge index": (
        "bad.svm",
        "1 1:1 99999999999:1\n",
        [],
        "line 1 has '99999999999:1' where index:value was expected\nhint: if this is not svmlight, use --input-format csv\n",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(herd, quick, tmp_path, name):
    file, contents, options, message = TEXTS[name]
    (tmp_path / file).write_text(contents)
    code = 2 if "--label" in options else 65
    refused(herd, tmp_path, quick(file, *options), code, f"herd fit-rbm: {file}: {message}")


def test_pickled_npz(herd, quick, tmp_path):
    with (tmp_path / "bad.npz").open("wb") as file:
        np.savez(file, X=np.array([{"a": 1}], dtype=object))
    message = (
        "array X has Python objects (a pickle), which herd does not read\nhint: save numbers or str arrays: pickles can run code "
        "and are never loaded\n"
    )
    refused(herd, tmp_path, quick("bad.npz"), 65, f"herd fit-rbm: bad.npz: {message}")


def test_npz_that_runs_code_runs_none(herd, quick, tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    with (tmp_path / "bad.npz").open("wb") as file:
        np.savez(file, X=np.array([Evil()], dtype=object))
    assert herd(*quick("bad.npz", "-o", "out.h5")).code == 65
    assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]


def test_npz_that_declares_more_than_it_holds(herd, quick, tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }"
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("X.npy", array)
    message = (
        "herd fit-rbm: bad.npz: array X is damaged: its header says 8000000000000000 bytes, but the file has at most 192\nhint: "
        "make the file again\n"
    )
    refused(herd, tmp_path, quick("bad.npz"), 65, message)


def test_gzip_bomb(herd, quick, tmp_path):
    import gzip

    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,0\n" * 5_000_000, 9))
    refused(
        herd,
        tmp_path,
        quick("bad.csv.gz", "--max-memory", "1M"),
        65,
        "herd fit-rbm: bad.csv.gz: needs 1.44 MB of memory, more than the 1 MB allowed\nhint: raise --max-memory if the machine has it\n",
    )


def test_cut_gzip(herd, quick, tmp_path):
    import gzip

    (tmp_path / "bad.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,0\n0,1\n" * 500)[:-9])
    reason = "Compressed file ended before the end-of-stream marker was reached"
    message = f"herd fit-rbm: bad.csv.gz: the compressed file is cut short or damaged ({reason})\nhint: download or compress it again\n"
    refused(herd, tmp_path, quick("bad.csv.gz"), 65, message)


def test_stdin_named_twice(herd, digits_bytes, tmp_path):
    ended = herd("apply", "-", "-", stdin=digits_bytes)
    assert ended.code == 2
    assert "stdin" in ended.err


def test_column_of_words_is_told(herd, quick, tmp_path):
    (tmp_path / "words.csv").write_text("a,b,name,y\n" + "1,0,ann,0\n0,1,bob,1\n" * 6)
    ended = herd(*quick("words.csv", "--label", "y", "-o", "out.h5"))
    assert ended.code == 0
    assert ended.err.splitlines()[0] == "fit-rbm: words.csv: text columns one-hot encoded: name (2 levels)"
