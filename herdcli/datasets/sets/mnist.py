"""MNIST: the four IDX files of LeCun, Cortes and Burges from any mirror, or the pictures of github.com/rasbt/mnist-pngs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from herdcli.datasets.registry import Arrays, DatasetEntry, PublishedFile

MIRRORS = ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")
PARTS = ("train", "t10k")
FILES: dict[str, tuple[int, str]] = {  # bytes, SHA-256
    "train-images-idx3-ubyte.gz": (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    "train-labels-idx1-ubyte.gz": (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    "t10k-images-idx3-ubyte.gz": (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    "t10k-labels-idx1-ubyte.gz": (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
}


def read_idx(path: Path) -> Any:
    """Return the uint8 array of an IDX file, which may be compressed by gzip."""
    import gzip

    import numpy as np

    from herdcli.errors import DataError

    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if raw[:3] != b"\0\0\x08":
        raise DataError("is not an IDX file of bytes", where=str(path))
    axes = raw[3]
    shape = np.frombuffer(raw, ">u4", axes, 4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def convert(files: Mapping[str, Path]) -> Arrays:
    """Return the training pictures, then the test pictures, in the order of the files."""
    import numpy as np

    images = [read_idx(files[f"{part}-images-idx3-ubyte.gz"]) for part in PARTS]
    labels = [read_idx(files[f"{part}-labels-idx1-ubyte.gz"]) for part in PARTS]
    return _pictures_and_labels(np.concatenate(images), np.concatenate(labels), [len(each) for each in labels])


def convert_pictures(path: Path) -> Arrays:
    """Return the same arrays from an archive of {train,test}/DIGIT/INDEX.png; INDEX is the index in the IDX file."""
    import numpy as np

    from herdcli.datasets.archives import read_members
    from herdcli.datasets.pictures import decode_grey

    parts = []
    for part in ("train", "test"):
        found = {}
        for name, content in read_members(path, part, ".png"):
            digit, _, index = name.removesuffix(".png").rpartition("/")
            found[int(index)] = (int(digit.rpartition("/")[2]), decode_grey(content))
        parts.append([found[index] for index in sorted(found)])
    together = [each for part in parts for each in part]
    return _pictures_and_labels(
        np.stack([picture for _, picture in together]), np.array([digit for digit, _ in together]), [len(each) for each in parts]
    )


def _pictures_and_labels(images: Any, labels: Any, counts: list[int]) -> Arrays:
    import numpy as np

    return {
        "X": images.reshape(len(images), -1),
        "split": np.repeat(np.arange(2, dtype=np.uint8), counts),
        "y": labels.astype(np.int32),
    }


ENTRY = DatasetEntry(
    name="mnist",
    file="mnist.h5",
    rows=70_000,
    columns=784,
    size=11_300_000,
    description="MNIST digits of 28×28; split (0 train, 1 test)",
    figures="Crammer & Lee 4; log-likelihood against time; claims; leagues; em",
    licence="CC BY-SA 3.0 as commonly stated (Yann LeCun and Corinna Cortes)",
    restricted=False,
    origin="the IDX files of LeCun, Cortes and Burges; also github.com/rasbt/mnist-pngs",
    sources=tuple(
        PublishedFile(file=name, urls=tuple(f"{mirror}/{name}" for mirror in MIRRORS), size=size, sha256=digest)
        for name, (size, digest) in FILES.items()
    ),
    attributes={"image_shape": (28, 28), "value_range": (0, 255), "n_classes": 10},
    convert=convert,
    digest="8e0597231602110c8f614060ddbe001df53cc6e763b4e59b22529006eac6edca",
)
