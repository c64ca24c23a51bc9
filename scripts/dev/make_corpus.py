"""Make tests/data/corpus: small files as pandas, polars, DuckDB, NumPy, SciPy, scikit-learn, anndata, openpyxl, pillow and R write them.

What must be read of each is read back here by the other program (pandas.read_csv, numpy.load, scipy.io.loadmat, anndata.read_h5ad …)
and stored in expected.json: rows, names of columns, labels, split; or that the file must be refused.  R is not needed: its files are in
the form of write.csv and write.table.  Needs pandas, polars, duckdb, anndata, openpyxl, pillow and scikit-learn.

    python scripts dev/make_corpus
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import sqlite3
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import duckdb
import h5py
import numpy as np
import pandas as pd
import polars as pl
from PIL import Image
from scipy import sparse
from scipy.io import loadmat, savemat, wavfile
from sklearn.datasets import dump_svmlight_file, load_digits, load_iris, load_svmlight_file

ROOT = Path(__file__).resolve().parents[2] / "tests" / "data" / "corpus"
EXPECTED: dict[str, dict[str, Any]] = {}
MISSING = ("", "NA", "?")


def main() -> None:
    """All files and expected.json."""
    warnings.simplefilter("ignore")
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    iris, mixed, pictures, digits = _iris(), _mixed(), *_digits()
    for make in (_pandas_text, _r, _polars, _duckdb, _json, _excel):
        make(iris, mixed)
    for made in (_numpy, _hdf5, _matlab, _idx, _images):
        made(iris, pictures, digits)
    _anndata(iris)
    _svmlight(iris)
    _sound()
    _refused(iris)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(EXPECTED[name])}" for name in sorted(EXPECTED))
    (ROOT / "expected.json").write_text("{\n" + text + "\n}\n")
    size = sum(path.stat().st_size for path in ROOT.rglob("*") if path.is_file())
    print(f"{len(EXPECTED)} cases, {size / 1e6:.2f} MB")


def read_as(name: str, X: Any, *, names: list[str] | None = None, y: Any = None, split: Any = None, **options: Any) -> None:
    """What must be read of a file: rows, and where they are given names, labels and split."""
    dense = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=float)
    dense = dense.reshape(len(dense), -1)
    labels = None if y is None else [_label(value) for value in np.asarray(y).tolist()]
    found = {"X": np.round(dense, 9).tolist(), "names": names, "y": labels}
    if split is not None:
        found["split"] = list(map(int, split))
    EXPECTED[_key(name, options)] = {"file": name, "options": options} | found


def refused(name: str, **options: Any) -> None:
    """A file that must be refused, with a hint."""
    EXPECTED[_key(name, options)] = {"file": name, "options": options, "refused": True}


def _key(name: str, options: dict[str, Any]) -> str:
    return name + "".join(f" {key}={value}" for key, value in options.items())


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(int(value)) if isinstance(value, bool) else str(value)


def frame_as(name: str, frame: pd.DataFrame, label: str | None = "species", missing: str | None = None, **options: Any) -> None:
    """What pandas makes of a frame: labels apart, gaps dropped or filled, text by get_dummies."""
    if missing == "drop":
        frame = frame.dropna()
    y = frame.get(label)
    features = frame.drop(columns=[label] if label in frame else [])
    texts = [column for column in features if features[column].dtype.kind not in "fiub"]
    numbers = features.drop(columns=texts).astype(float)
    if missing == "mean":
        numbers = numbers.fillna(numbers.mean())
    parts = [numbers, *(pd.get_dummies(features[column].astype(str), prefix=column, prefix_sep="=") for column in texts)]
    whole = pd.concat(parts, axis=1)
    if missing:
        options["missing"] = missing
    if label not in (None, "y", "label", "class", "target") and y is not None:
        options["label"] = label
    read_as(name, whole.to_numpy(dtype=float), names=[str(column) for column in whole.columns], y=y, **options)


def _iris() -> pd.DataFrame:
    data = load_iris()
    frame = pd.DataFrame(data.data, columns=["sepal_length", "sepal_width", "petal_length", "petal_width"])
    frame["species"] = data.target_names[data.target]
    return frame.iloc[::6].reset_index(drop=True)


def _mixed() -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = 24
    frame = pd.DataFrame({"age": random.integers(18, 90, rows).astype(float), "dose": random.normal(size=rows).round(3)})
    frame["smoker"], frame["site"] = random.random(rows) < 0.4, random.choice(["Bern", "Genève", "Zürich"], rows)
    frame["y"] = random.choice(["ill", "well"], rows)
    frame.loc[[3, 9], "age"] = np.nan
    frame.loc[5, "dose"] = np.nan
    return frame


def _digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return data.images[:30], data.target[:30]


def _written(name: str, write: Callable[[Path], object]) -> Path:
    write(ROOT / name)
    return ROOT / name


def _pandas_text(iris: pd.DataFrame, mixed: pd.DataFrame) -> None:
    """CSV in the ways of pandas.to_csv, read back by pandas.read_csv."""
    ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "plain.csv": ({"index": False}, {}),
        "index.csv": ({}, {"index_col": 0}),
        "tab.tsv": ({"index": False, "sep": "\t"}, {"sep": "\t"}),
        "semicolon.csv": ({"index": False, "sep": ";"}, {"sep": ";"}),
        "blank.csv": ({"index": False, "sep": " "}, {"sep": " "}),
        "quoted.csv": ({"index": False, "quoting": 1}, {}),
        "crlf.csv": ({"index": False, "lineterminator": "\r\n"}, {}),
        "bom.csv": ({"index": False, "encoding": "utf-8-sig"}, {}),
        "short.csv": ({"index": False, "float_format": "%.2e"}, {}),
        "packed.csv.gz": ({"index": False}, {}),
        "packed.csv.bz2": ({"index": False}, {}),
        "packed.csv.xz": ({"index": False}, {}),
    }
    for name, (write, read) in ways.items():
        path = _written(f"pandas-{name}", lambda path, write=write: iris.to_csv(path, **write))
        frame_as(path.name, pd.read_csv(path, **read))
    again = ROOT / "pandas-unnamed.csv"
    pd.read_csv(ROOT / "pandas-index.csv").to_csv(again, index=False)
    frame_as(again.name, pd.read_csv(again).drop(columns="Unnamed: 0"))
    bare = _written("pandas-bare.csv", lambda path: iris.drop(columns="species").to_csv(path, index=False, header=False))
    read_as(bare.name, pd.read_csv(bare, header=None).to_numpy())
    for number, column in enumerate(("y", "label", "Class", "TARGET")):
        path = _written(
            f"pandas-label{number}.csv", lambda path, column=column: iris.rename(columns={"species": column}).to_csv(path, index=False)
        )
        read_as(path.name, iris.iloc[:, :4], names=list(iris.columns[:4]), y=iris["species"])
    for mark in MISSING:
        path = _written(f"pandas-gaps{MISSING.index(mark)}.csv", lambda path, mark=mark: mixed.to_csv(path, index=False, na_rep=mark))
        back = pd.read_csv(path, na_values=["?"])
        refused(path.name)
        for missing in ("drop", "mean"):
            frame_as(path.name, back, "y", missing)
    path = _written("pandas-full.csv", lambda path: mixed.dropna().to_csv(path, index=False))
    frame_as(path.name, pd.read_csv(path), "y")
    path = _written("pandas-categories.parquet", lambda path: mixed.dropna().astype({"site": "category"}).to_parquet(path, index=False))
    frame_as(path.name, pd.read_parquet(path), "y")
    path = _written("pandas.feather", lambda path: mixed.dropna().reset_index(drop=True).to_feather(path))
    frame_as(path.name, pd.read_feather(path), "y")
    path = _written(
        "pandas-index.parquet", lambda path: mixed.dropna().set_index(pd.Index(range(100, 100 + len(mixed.dropna())))).to_parquet(path)
    )
    frame_as(path.name, pd.read_parquet(path), "y")
    path = _written("pandas-nullable.parquet", lambda path: mixed.convert_dtypes().to_parquet(path, index=False))
    refused(path.name)
    frame_as(path.name, pd.read_parquet(path).astype({"age": float, "dose": float, "smoker": bool}), "y", "mean")
    whole = _written("pandas-integers.csv", lambda path: (iris.iloc[:, :4] * 10).astype(int).to_csv(path, index=False))
    frame_as(whole.name, pd.read_csv(whole), None)
    for form, moments in (("dates", "2024-01-01"), ("times", "2024-01-01 10:00:00")):
        _written(
            f"pandas-{form}.csv",
            lambda path, moments=moments: iris.assign(day=pd.date_range(moments, periods=len(iris))).to_csv(path, index=False),
        )
        refused(f"pandas-{form}.csv")
    _written("pandas-comma.csv", lambda path: iris.to_csv(path, index=False, sep=";", decimal=","))
    frame_as("pandas-comma.csv", pd.read_csv(ROOT / "pandas-comma.csv", sep=";", decimal=","))


def _r(iris: pd.DataFrame, mixed: pd.DataFrame) -> None:
    """write.csv and write.table of R: quoted names, rows with names, NA; the latter's first line has one name fewer."""

    def lines(frame: pd.DataFrame, separator: str, *, corner: bool, rows: bool) -> str:
        titles = ([""] if corner else []) + list(frame.columns)
        text = [separator.join(f'"{title}"' for title in titles)]
        for number, row in enumerate(frame.itertuples(index=False), 1):
            cells = [
                "NA"
                if value != value
                else (
                    "TRUE" if value is True else "FALSE" if value is False else f'"{value}"' if isinstance(value, str) else f"{value:.15g}"
                )
                for value in row
            ]
            text.append(separator.join(([f'"{number}"'] if rows else []) + cells))
        return "\n".join(text) + "\n"

    for name, separator, corner, rows in (
        ("r-write.csv", ",", True, True),
        ("r-norows.csv", ",", False, False),
        ("r-table.txt", " ", False, True),
        ("r-tab.tsv", "\t", False, False),
    ):
        (ROOT / name).write_text(lines(iris, separator, corner=corner, rows=rows))
        frame_as(name, pd.read_csv(ROOT / name, sep=separator, index_col=0 if rows else None))
    (ROOT / "r-gaps.csv").write_text(lines(mixed, ",", corner=True, rows=True))
    for missing in ("drop", "mean"):
        frame_as("r-gaps.csv", pd.read_csv(ROOT / "r-gaps.csv", index_col=0), "y", missing)


def _polars(iris: pd.DataFrame, mixed: pd.DataFrame) -> None:
    own, gaps = pl.from_pandas(iris), pl.from_pandas(mixed)
    full = gaps.drop_nulls()
    for name, write in (
        ("polars.csv", own.write_csv),
        ("polars-zstd.parquet", lambda path: own.write_parquet(path, compression="zstd")),
        ("polars-snappy.parquet", lambda path: own.write_parquet(path, compression="snappy")),
        ("polars-gzip.parquet", lambda path: own.write_parquet(path, compression="gzip")),
        ("polars.arrow", own.write_ipc),
        ("polars-lz4.arrow", lambda path: own.write_ipc(path, compression="lz4")),
        ("polars.ndjson", own.write_ndjson),
    ):
        frame_as(_written(name, write).name, iris)
    frame_as(_written("polars-mixed.parquet", full.write_parquet).name, full.to_pandas(), "y")
    frame_as(
        _written("polars-categories.arrow", full.with_columns(pl.col("site").cast(pl.Categorical)).write_ipc).name, full.to_pandas(), "y"
    )
    frame_as(
        _written("polars-float32.parquet", own.with_columns(pl.col(pl.Float64).cast(pl.Float32)).write_parquet).name,
        own.with_columns(pl.col(pl.Float64).cast(pl.Float32)).to_pandas(),
    )
    path = _written("polars-gaps.parquet", gaps.write_parquet)
    refused(path.name)
    frame_as(path.name, mixed, "y", "drop")
    _written("polars-dates.parquet", own.with_columns(pl.lit(0).cast(pl.Date).alias("day")).write_parquet)
    refused("polars-dates.parquet")


def _duckdb(iris: pd.DataFrame, mixed: pd.DataFrame) -> None:
    """COPY … TO, read back by DuckDB itself."""
    base = duckdb.connect()
    base.register("iris", iris)
    base.register("mixed", mixed.dropna())
    for name, form in (
        ("duckdb.csv", "FORMAT csv, HEADER"),
        ("duckdb.parquet", "FORMAT parquet"),
        ("duckdb.json", "FORMAT json"),
        ("duckdb-list.json", "FORMAT json, ARRAY true"),
    ):
        base.execute(f"COPY iris TO '{ROOT / name}' ({form})")
        frame_as(name, base.execute(f"SELECT * FROM '{ROOT / name}'").df())
    base.execute(f"COPY mixed TO '{ROOT / 'duckdb-mixed.parquet'}' (FORMAT parquet, COMPRESSION zstd)")
    frame_as("duckdb-mixed.parquet", mixed.dropna(), "y")
    base.execute(
        "COPY (SELECT sepal_length::DECIMAL(6,2) AS a, petal_width::FLOAT AS b, species AS y FROM iris)"
        f" TO '{ROOT / 'duckdb-decimal.parquet'}'"
    )
    frame_as("duckdb-decimal.parquet", base.execute(f"SELECT a::DOUBLE AS a, b, y FROM '{ROOT / 'duckdb-decimal.parquet'}'").df(), "y")


def _json(iris: pd.DataFrame, mixed: pd.DataFrame) -> None:
    for orient in ("records", "columns"):
        path = _written(f"pandas-{orient}.json", lambda path, orient=orient: iris.to_json(path, orient=orient))
        frame_as(path.name, pd.read_json(path))
    for name, packed in (("pandas.jsonl", None), ("pandas.jsonl.gz", "gzip")):
        path = _written(name, lambda path, packed=packed: mixed.dropna().to_json(path, orient="records", lines=True, compression=packed))
        frame_as(path.name, pd.read_json(path, lines=True), "y")
    path = _written("pandas-gaps.jsonl", lambda path: mixed.to_json(path, orient="records", lines=True))
    refused(path.name)
    frame_as(path.name, pd.read_json(path, lines=True), "y", "mean")
    path = _written("pandas-values.json", lambda path: iris.iloc[:, :4].to_json(path, orient="values"))
    read_as(path.name, json.loads(path.read_text()))
    _written("pandas-split.json", lambda path: iris.to_json(path, orient="split"))
    refused("pandas-split.json")
    (ROOT / "nested.jsonl").write_text('{"a": 1, "b": {"c": 2}}\n{"a": 2, "b": {"c": 3}}\n')
    read_as("nested.jsonl", [[1, 2], [2, 3]], names=["a", "b.c"])


def _excel(iris: pd.DataFrame, mixed: pd.DataFrame) -> None:
    for name, index in (("pandas.xlsx", False), ("pandas-index.xlsx", True)):
        path = _written(name, lambda path, index=index: iris.to_excel(path, index=index))
        frame_as(path.name, pd.read_excel(path, index_col=0 if index else None))
    path = _written("pandas-mixed.xlsx", lambda path: mixed.to_excel(path, index=False))
    refused(path.name)
    frame_as(path.name, pd.read_excel(path), "y", "drop")
    _written("pandas-dates.xlsx", lambda path: iris.assign(day=pd.Timestamp("2024-01-01")).to_excel(path, index=False))
    refused("pandas-dates.xlsx")


def _numpy(iris: pd.DataFrame, pictures: np.ndarray, digits: np.ndarray) -> None:
    X = iris.iloc[:, :4].to_numpy()
    for name, array in (
        ("numpy.npy", X), ("numpy-fortran.npy", np.asfortranarray(X)), ("numpy-big.npy", X.astype(">f8")),
        ("numpy-half.npy", X.astype("f2")),
        ("numpy-bool.npy", X > 3), ("numpy-pictures.npy", pictures.astype("u1")), ("numpy-column.npy", X[:, 0]),
        ("numpy-channels.npy", pictures[..., None].astype("u1")), ("numpy-colour.npy", np.repeat(pictures[:5, :4, :4, None], 3, axis=3)),
    ):  # fmt: skip
        np.save(ROOT / name, array)
        read_as(name, np.load(ROOT / name))
    saved: dict[str, dict[str, Any]] = {
        "numpy-xy.npz": {"X": X, "y": np.arange(len(X)) % 3},
        "numpy-words.npz": {"X": X, "y": iris["species"].to_numpy(dtype=str)},
        "numpy-x.npz": {"x": X, "label": np.arange(len(X)) % 3},
        "sklearn-digits.npz": {"data": pictures.reshape(30, -1), "target": digits, "images": pictures},
        "numpy-images.npz": {"images": pictures.astype("u1"), "labels": digits},
    }
    for name, arrays in saved.items():
        np.savez(ROOT / name, **arrays)
        rows, label = list(arrays)[:2]
        read_as(name, np.load(ROOT / name)[rows], y=np.load(ROOT / name)[label])
    np.savez(ROOT / "numpy-places.npz", X, digits[: len(X)])
    read_as("numpy-places.npz", X, y=digits[: len(X)])
    iris_names = {
        "data": X,
        "target": np.arange(len(X)) % 3,
        "target_names": np.array(["a", "b", "c"]),
        "feature_names": np.array(list(iris.columns[:4])),
    }
    np.savez_compressed(ROOT / "sklearn-bunch.npz", **iris_names)
    read_as("sklearn-bunch.npz", X, names=list(iris.columns[:4]), y=np.array(["a", "b", "c"])[np.arange(len(X)) % 3])
    one_hot, halves = np.eye(10)[digits], [0] * 20 + [2] * 10
    for name, train, test, labels in (
        ("keras-mnist.npz", ("x_train", "y_train"), ("x_test", "y_test"), digits),
        ("keras-onehot.npz", ("X_train", "Y_train"), ("X_test", "Y_test"), one_hot),
        ("medmnist.npz", ("train_images", "train_labels"), ("test_images", "test_labels"), digits[:, None]),
    ):  # fmt: skip
        grey = (pictures * 15).astype("u1")
        np.savez_compressed(ROOT / name, **{train[0]: grey[:20], train[1]: labels[:20], test[0]: grey[20:], test[1]: labels[20:]})
        read_as(name, grey, y=digits, split=halves)
    sparse.save_npz(ROOT / "scipy-csr.npz", sparse.csr_matrix(pictures.reshape(30, -1)))
    read_as("scipy-csr.npz", sparse.load_npz(ROOT / "scipy-csr.npz"))
    np.savetxt(ROOT / "numpy-savetxt.txt", X)
    np.savetxt(ROOT / "numpy-savetxt.csv", X, delimiter=",", header="from NumPy")
    read_as("numpy-savetxt.txt", np.loadtxt(ROOT / "numpy-savetxt.txt"))
    read_as("numpy-savetxt.csv", np.loadtxt(ROOT / "numpy-savetxt.csv", delimiter=","))
    np.savez(ROOT / "numpy-objects.npz", X=np.array([{"a": 1}], dtype=object))
    np.save(ROOT / "numpy-structured.npy", np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]))
    np.savez(ROOT / "numpy-norows.npz", weights=X)
    for name in ("numpy-objects.npz", "numpy-structured.npy", "numpy-norows.npz"):
        refused(name)


def _hdf5(iris: pd.DataFrame, pictures: np.ndarray, digits: np.ndarray) -> None:
    grey = (pictures * 15).astype("u1")
    for name, arrays, rows, label in (
        ("h5py-xy.h5", {"X": grey.reshape(30, -1), "y": digits}, "X", "y"), ("h5py-pictures.h5", {"X": grey, "y": digits}, "X", "y"),
        ("h5py-images.h5", {"images": grey, "labels": digits}, "images", "labels"),
        ("h5py-data.h5", {"data": grey, "label": digits}, "data", "label"),
    ):  # fmt: skip
        with h5py.File(ROOT / name, "w") as file:
            for key, value in arrays.items():
                file.create_dataset(key, data=value, compression="gzip")
        with h5py.File(ROOT / name) as file:
            read_as(name, file[rows][()], y=file[label][()])
    with h5py.File(ROOT / "h5py-parts.h5", "w") as file:
        for part, rows in (("train", slice(0, 20)), ("test", slice(20, 30))):
            file[f"x_{part}"], file[f"y_{part}"] = grey[rows, :, :, None], digits[rows]
    read_as("h5py-parts.h5", grey, y=digits, split=[0] * 20 + [2] * 10)
    with h5py.File(ROOT / "h5py-norows.h5", "w") as file:
        file["weights"] = pictures
    refused("h5py-norows.h5")
    with h5py.File(ROOT / "matlab-v73.mat", "w", userblock_size=512) as file:
        for key, value in (("X", iris.iloc[:, :4].to_numpy().T), ("y", np.arange(len(iris))[None] % 3.0)):
            file.create_dataset(key, data=value).attrs["MATLAB_class"] = np.bytes_("double")
    with open(ROOT / "matlab-v73.mat", "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")
    read_as("matlab-v73.mat", iris.iloc[:, :4], y=np.arange(len(iris)) % 3.0)


def _matlab(iris: pd.DataFrame, pictures: np.ndarray, digits: np.ndarray) -> None:
    X, y = iris.iloc[:, :4].to_numpy(), np.arange(len(iris)) % 3
    cases: dict[str, tuple[dict[str, Any], str, str | None]] = {
        "scipy.mat": ({"X": X, "y": y}, "X", "y"),
        "scipy-column.mat": ({"X": X, "y": y[:, None].astype(float)}, "X", "y"),
        "scipy-fea.mat": ({"fea": pictures.reshape(30, -1).astype("u1"), "gnd": digits[:, None]}, "fea", "gnd"),
        "scipy-one.mat": ({"measurements": X}, "measurements", None),
        "scipy-sparse.mat": ({"X": sparse.csc_matrix(pictures.reshape(30, -1)), "y": digits}, "X", "y"),
        "scipy-words.mat": ({"X": X, "y": iris["species"].to_numpy(dtype=str)}, "X", "y"),
        "scipy-logical.mat": ({"X": X > 3, "y": y}, "X", "y"),
    }
    for name, (arrays, rows, label) in cases.items():
        savemat(ROOT / name, arrays, do_compression="sparse" in name)
        back = loadmat(ROOT / name)
        read_as(
            name,
            back[rows],
            y=None if label is None else np.char.rstrip(back[label]) if back[label].dtype.kind == "U" else back[label].ravel(),
        )
    savemat(ROOT / "scipy-struct.mat", {"s": {"a": 1.0}})
    refused("scipy-struct.mat")


def _idx(iris: pd.DataFrame, pictures: np.ndarray, digits: np.ndarray) -> None:
    def idx(array: np.ndarray, code: int) -> bytes:
        return bytes([0, 0, code, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()

    grey = (pictures * 15).astype("u1")
    (ROOT / "train-images-idx3-ubyte").write_bytes(idx(grey, 8))
    (ROOT / "train-labels-idx1-ubyte").write_bytes(idx(digits.astype("u1"), 8))
    (ROOT / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(grey, 8), mtime=0))
    (ROOT / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(digits.astype("u1"), 8), mtime=0))
    (ROOT / "floats.idx").write_bytes(idx(iris.iloc[:, :4].to_numpy(dtype=">f4"), 13))
    for name in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"):
        read_as(name, grey, y=digits)
    read_as("floats.idx", iris.iloc[:, :4].to_numpy(dtype="f4"))
    (ROOT / "short.idx").write_bytes(idx(grey, 8)[:500])
    refused("short.idx")


def _images(iris: pd.DataFrame, pictures: np.ndarray, digits: np.ndarray) -> None:
    grey = (pictures * 15).astype("u1")
    kept = np.flatnonzero(digits < 3)
    for number in kept:
        for place, part in (("png", ""), ("parts", "train/" if number < 20 else "test/")):
            path = ROOT / place / f"{part}{digits[number]}" / f"{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(grey[number]).save(path)
    order = sorted(kept, key=lambda number: (digits[number], number))
    read_as("png", grey[order], y=digits[order])
    order = sorted(kept, key=lambda number: ("train" if number < 20 else "test", digits[number], number))
    read_as("parts", grey[order], y=digits[order], split=[0 if number < 20 else 2 for number in order])
    for place in ("flat", "colour", "sizes", "jpeg"):
        (ROOT / place).mkdir()
    for number in range(6):
        Image.fromarray(grey[number]).save(ROOT / "flat" / f"{number}.png")
        Image.fromarray(np.stack([grey[number], grey[number].T, grey[number]], axis=2)).save(ROOT / "colour" / f"{number}.png")
        Image.fromarray(grey[number]).resize((64, 64)).save(ROOT / "jpeg" / f"{number}.jpg", quality=90)
        Image.fromarray(grey[number][: 4 + number]).save(ROOT / "sizes" / f"{number}.png")
    read_as("flat", grey[:6])
    read_as("colour", np.stack([np.asarray(Image.open(ROOT / "colour" / f"{number}.png")) for number in range(6)]))
    means = np.stack([np.asarray(Image.open(ROOT / "jpeg" / f"{number}.jpg")) for number in range(6)])
    EXPECTED["jpeg"] = {"file": "jpeg", "options": {}, "sums": means.reshape(6, -1).sum(axis=1).tolist(), "shape": [6, 4096]}
    refused("sizes")


def _anndata(iris: pd.DataFrame) -> None:
    X = iris.iloc[:, :4].to_numpy(dtype="f4")
    obs = pd.DataFrame(
        {"species": pd.Categorical(iris["species"]), "batch": np.arange(len(iris)) % 2}, index=[f"cell{row}" for row in range(len(iris))]
    )
    var = pd.DataFrame(index=list(iris.columns[:4]))
    for name, matrix, packed in (
        ("anndata-dense.h5ad", X, None), ("anndata-csr.h5ad", sparse.csr_matrix(np.where(X > 3, X, 0)), None),
        ("anndata-csc.h5ad", sparse.csc_matrix(np.where(X > 3, X, 0)), None), ("anndata-gzip.h5ad", X, "gzip"),
    ):  # fmt: skip
        whole = anndata.AnnData(matrix, obs=obs, var=var, layers={"counts": np.round(X)})
        whole.write_h5ad(ROOT / name, compression=packed)
        back = anndata.read_h5ad(ROOT / name)
        names = list(back.var_names)
        read_as(name, back.X, names=names)
        read_as(name, back.X, names=names, y=back.obs["species"], label="obs:species")
        if name == "anndata-dense.h5ad":
            read_as(name, back.X, names=names, y=back.obs["batch"], label="batch")
            read_as(name, back.layers["counts"], names=names, layer="counts")
            refused(name, layer="spliced")
            refused(name, label="obs:nothing")


def _svmlight(iris: pd.DataFrame) -> None:
    X, y = iris.iloc[:, :4].to_numpy(), np.arange(len(iris)) % 3
    for name, zero in (("sklearn-one.svm", False), ("sklearn-zero.svm", True)):
        dump_svmlight_file(X, y, str(ROOT / name), zero_based=zero)
        back, labels = load_svmlight_file(str(ROOT / name), zero_based=zero)
        read_as(name, back.toarray(), y=labels)


def _sound() -> None:
    time = np.arange(400) / 8000
    wave = np.sin(2 * np.pi * 440 * time)
    for name, samples in (
        ("mono16.wav", (wave * 3e4).astype("i2")), ("stereo16.wav", (np.stack([wave, wave / 2], axis=1) * 3e4).astype("i2")),
        ("float.wav", wave.astype("f4")), ("mono8.wav", (wave * 100 + 128).astype("u1")),
    ):  # fmt: skip
        wavfile.write(ROOT / name, 8000, samples)
        read_as(name, wavfile.read(ROOT / name)[1])


def _refused(iris: pd.DataFrame) -> None:
    """What no data set is, or what nobody should open."""
    (ROOT / "model.pkl").write_bytes(pickle.dumps({"a": 1}, protocol=4))
    base = sqlite3.connect(ROOT / "table.sqlite")
    iris.head(3).to_sql("iris", base)
    base.close()
    with zipfile.ZipFile(ROOT / "tables.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("plain.csv"), iris.head(3).to_csv(index=False))
    frame_as("tables.zip", iris.head(3))
    (ROOT / "old.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600))
    (ROOT / "names.csv").write_text("first,last\nAda,Lovelace\nAlan,Turing\n")
    for name in ("model.pkl", "table.sqlite", "old.xls", "names.csv", "png/0/00.png"):
        refused(name)


if __name__ == "__main__":
    main()
