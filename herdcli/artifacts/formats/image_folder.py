"""A folder of PNG and JPEG files: a row for each image; subfolders are labels, and folders train and test above them give the split."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.library_errors import error_reason
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset
from herdcli.artifacts.tables.named_arrays import PARTS
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm")
INSTALL = "pip install 'herdcli[image]'"
DEEPEST = 2  # levels of folders above an image: split, label
GREY, COLOUR = "L", "RGB"


def list_image_files(folder: str) -> list[Path]:
    """Return the images of a folder and its subfolders, sorted by name; an empty list if the path is not a folder."""
    root = Path(folder)
    if not root.is_dir():
        return []
    depths = ["*", "*/*", "*/*/*"][: DEEPEST + 1]
    found = {path for pattern in depths for path in root.glob(pattern) if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")}
    return sorted(path for path in found if path.is_file())


def read_folder(folder: str, paths: list[Path], options: LoadOptions) -> tuple[Dataset, str, int]:
    """Return the data set of the images, the digest of their names and bytes, and their size in bytes."""
    try:
        from PIL import Image
    except ImportError:
        raise BadUsage("reading a folder of images needs the package pillow", where=folder, hint=INSTALL) from None
    places = [path.relative_to(folder).parts[:-1] for path in paths]
    running, size, mode = hashlib.sha256(), 0, GREY
    pictures: list[Any] = []
    for path in paths:
        raw = path.read_bytes()
        running.update(f"{path.relative_to(folder)} {len(raw)}\n".encode("utf-8", "surrogateescape"))
        running.update(raw)
        size += len(raw)
        picture = _decode_image(Image, path)
        if pictures and picture.size != pictures[0].size:
            first, other = ("×".join(map(str, one.size)) for one in (pictures[0], picture))
            hint = f"bring them to one size: mogrify -resize {first.replace('×', 'x')}! FILES"
            raise DataError(
                f"{path.relative_to(folder)} has {other} pixels, but {paths[0].relative_to(folder)} has {first}", where=folder, hint=hint
            )
        mode = GREY if mode == GREY and picture.mode in ("1", "L", "LA", "I;16", "I", "F") else COLOUR
        pictures.append(picture)
        memory_budget.require_memory(
            len(paths) * picture.size[0] * picture.size[1] * (1 if mode == GREY else 3), options.limit, where=folder
        )
    X = np.stack([_pixel_values(picture, mode, path) for picture, path in zip(pictures, paths, strict=True)])
    parts, labels = _splits_and_labels(places, folder)
    declared: dict[str, Any] = {"value_range": np.array([0, 255])}
    if mode == GREY:
        declared["image_shape"] = X.shape[1:]
    else:
        options.note(f"{folder}: the images are in colour, so each pixel has three columns")
    rows = np.ascontiguousarray(X.reshape(len(X), -1))
    found: dict[str, Array] = {} if labels is None else {"y": np.array(labels)}
    if parts is not None:
        found["split"] = np.array(parts, dtype=np.uint8)
    return assemble_dataset(rows, found, declared, where=folder, note=options.note), running.hexdigest(), size


def _decode_image(image: Any, path: Path) -> Any:
    try:
        return image.open(path)
    except MemoryError:
        raise
    except Exception as error:  # only pillow runs here, and its readers raise exceptions of many types
        raise DataError(f"is not a readable image ({error_reason(error)})", where=str(path), hint="remove or repair it") from error


def _pixel_values(picture: Any, mode: str, path: Path) -> Array:
    """Return the pixels (h, w) or (h, w, 3) as bytes; 16-bit values are scaled to 8 bits."""
    is_deep = picture.mode in ("I;16", "I", "F")
    try:
        pixels = np.asarray(picture, dtype=np.float64) if is_deep else np.asarray(picture.convert(mode))
    except MemoryError:
        raise
    except Exception as error:  # only pillow runs here, and decodes the picture
        raise DataError("the image is cut short or damaged", where=str(path), hint="remove or repair it") from error
    finally:
        picture.close()
    if not is_deep:
        return pixels
    return np.asarray(np.round(pixels / max(255.0, 65535.0 if pixels.max() > 255 else 255.0) * 255.0), dtype=np.uint8)


def _splits_and_labels(parent_folders: list[tuple[str, ...]], folder: str) -> tuple[list[int] | None, list[str] | None]:
    """Return the split and the label of each image, from the folders above it."""
    parts = None
    if all(place and place[0].lower() in PARTS for place in parent_folders):
        parts = [PARTS[place[0].lower()] for place in parent_folders]
        parent_folders = [place[1:] for place in parent_folders]
    depths = {len(place) for place in parent_folders}
    if len(depths) > 1 or max(depths) > 1:
        hint = "make a subfolder for each label, or the folders train, valid and test with such subfolders"
        raise DataError("has images in subfolders at different depths", where=folder, hint=hint)
    return parts, [place[0] for place in parent_folders] if depths == {1} else None
