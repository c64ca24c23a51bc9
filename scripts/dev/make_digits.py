"""Make data/digits.h5, the data set that ships with herd, from scikit-learn's copy or from the text file of UCI.

    python scripts dev/make_digits data/digits.h5                        (needs scikit-learn)
    python scripts dev/make_digits data/digits.h5 --source optdigits.tes (64 pixels and the label in each row, commas between; or .gz)
    python scripts dev/make_digits --check data/digits.h5                compare the values with a fresh copy; exit 1 if they differ

The 1,797 images are the test part of "Optical Recognition of Handwritten Digits" (Alpaydin & Kaynak 1998):
32×32 bitmaps reduced to 8×8 counts of 0 to 16, from 13 writers.  CC BY 4.0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import h5py
import numpy as np

from herdcli.artifacts import Dataset, atomic_file, load, save
from herdcli.artifacts.sealed import seal_header
from herdcli.artifacts.tables.dataset_preparation import SplitRule, assign_splits, use_split_rule
from herdcli.schema import Array

SOURCE = (
    "Optical Recognition of Handwritten Digits, test part (1797 images): E. Alpaydin and C. Kaynak (1998), "
    "UCI Machine Learning Repository, https://doi.org/10.24432/C50P49"
)
LICENCE = "CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)"
SHARES = ".6,.2,.2"


def read_images(path: str | None) -> tuple[Array, Array]:
    """Pixels (1797, 64) uint8 in 0…16 and labels (1797,) uint8, in the order of the original file."""
    if path is None:
        from sklearn.datasets import load_digits

        digits = load_digits()
        return digits.data.astype(np.uint8), digits.target.astype(np.uint8)
    table = np.loadtxt(path, delimiter=",").astype(np.uint8)
    return table[:, :64], table[:, 64]


def digits(path: str | None) -> Dataset:
    """The data set with its declared range, its stratified split (seed 0) and where it comes from."""
    X, y = read_images(path)
    if X.shape != (1797, 64) or X.max() != 16:
        raise SystemExit(f"expected 1797 rows of 64 pixels in 0..16, got {X.shape} up to {X.max()}")
    declared = Dataset(
        X=X,
        y=y,
        class_names=[str(label) for label in range(10)],
        value_range=np.array([0.0, 16.0]),
        image_shape=np.array([8, 8]),
        source=SOURCE,
        licence=LICENCE,
    )
    with use_split_rule(SplitRule(by_class=True)):
        return replace(declared, split=assign_splits(declared, SHARES, 0))


def write_packed(path: str, value: Dataset) -> int:
    """Write the artifact with five bits a pixel (HDF5's scale-offset filter, the same bytes from every build); its size."""
    with atomic_file(path) as target, tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain.h5")
        save(str(plain), value, [])
        with (
            h5py.File(plain) as source,
            h5py.File(target, "w", libver=("v110", "v110"), userblock_size=seal_header.BLOCK, locking=False) as packed,
        ):
            for name, attribute in source.attrs.items():
                packed.attrs.create(name, attribute, dtype=source.attrs.get_id(name).dtype)
            for name in source:
                if name != "X":
                    source.copy(name, packed)
            packed.create_dataset("X", data=source["X"], chunks=source["X"].shape, scaleoffset=0, track_times=False)
        return seal_header.write_seal(target, "dataset").size


def differences(ours: Dataset, theirs: Dataset) -> list[str]:
    """Names of the fields whose values differ."""
    return [field.name for field in fields(Dataset) if not np.array_equal(getattr(ours, field.name), getattr(theirs, field.name))]


def main() -> None:
    """Make or compare, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="data/digits.h5")
    parser.add_argument("--source", help="the text file of UCI instead of scikit-learn's copy")
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    options = parser.parse_args()
    made = digits(options.source)
    if options.check:
        different = differences(made, load(options.file, kinds={"dataset"}).value)
        sys.exit(f"{options.file}: differs in {', '.join(different)}" if different else 0)
    print(f"{options.file}: {write_packed(options.file, made)} bytes")


if __name__ == "__main__":
    main()
