"""Sound: a column for each channel, a row for each sample.  SciPy reads and writes WAV; soundfile reads other formats."""

from __future__ import annotations

import importlib.util
import io
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from herdcli.artifacts import memory_budget
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.message_numbers import group_digits
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset, flatten_rows
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array, Matrix

RATE = 44_100  # sampling rate that is written for rows without one
STORED = {"uint8": np.uint8, "int16": np.int16, "int32": np.int32, "float32": np.float32}  # sample types of WAV
DECODED = {"PCM_S8": "int16", "PCM_U8": "int16", "PCM_16": "int16", "PCM_24": "int32", "PCM_32": "int32", "DOUBLE": "float64"}
MOST_BYTES, MOST_CHANNELS = (1 << 32) - 4096, (1 << 16) - 1  # limits of the WAV format
HINT = "write PCM: sox IN.wav -e signed -b 16 OUT.wav"


def read(stream: BinaryIO, *, where: str, options: LoadOptions) -> Dataset:
    """Return the data set of a recording, with its sampling rate, which is also reported."""
    raw = stream.read(options.limit + 1)
    memory_budget.require_memory(len(raw), options.limit, where=where)
    rate, X = _read_wav(raw, where, options) if raw[8:12] == b"WAVE" else _read_with_soundfile(raw, where, options)
    rows, _ = flatten_rows(X)
    seconds = len(rows) / rate if rate else 0.0
    options.note(f"{where}: {seconds:.3g} s at {rate} Hz, {rows.shape[1]} channel{'s' if rows.shape[1] > 1 else ''}")
    return replace(assemble_dataset(rows, {}, {}, where=where, note=options.note), sample_rate=rate or None)


def _read_wav(raw: bytes, where: str, options: LoadOptions) -> tuple[int, Array]:
    """Return rate and samples of WAV; codings unknown to SciPy are read by soundfile if it is installed."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about chunks without sound
            rate, X = wavfile.read(io.BytesIO(raw))
    except MemoryError:
        raise
    except Exception as error:  # only SciPy runs here: it raises ValueError, struct.error and others
        if importlib.util.find_spec("soundfile") is not None:
            return _decode(raw, where, options)
        raise DataError(f"the WAV file cannot be read ({_error_reason(error)})", where=where, hint=HINT) from error
    return int(rate), X


def _read_with_soundfile(raw: bytes, where: str, options: LoadOptions) -> tuple[int, Array]:
    """Return rate and samples of FLAC, Ogg and AIFF."""
    if importlib.util.find_spec("soundfile") is None:
        raise BadUsage(
            "to read audio files other than WAV, herd needs the package soundfile", where=where, hint="pip install 'herdcli[sound]'"
        )
    return _decode(raw, where, options)


def _decode(raw: bytes, where: str, options: LoadOptions) -> tuple[int, Array]:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(raw)) as file:
            kind = DECODED.get(file.subtype, "float32")
            memory_budget.require_memory(len(file) * file.channels * np.dtype(kind).itemsize, options.limit, where=where)
            return int(file.samplerate), file.read(dtype=kind, always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError, ValueError, TypeError) as error:
        what = "WAV file" if raw[8:12] == b"WAVE" else "sound file"
        raise DataError(f"the {what} cannot be read ({_error_reason(error)})", where=where, hint=HINT) from error


def _error_reason(error: Exception) -> str:
    """Return the reason, without the address of the stream that libsndfile adds; its "internal errors" are faults of the file."""
    reason = str(getattr(error, "error_string", error)).replace("Unspecified internal error", "libsndfile gives no reason")
    return " ".join(reason.split())[:200] or type(error).__name__


def _scale_samples(X: Matrix) -> tuple[Array, float]:
    """Return samples in a type that WAV can store, and the number by which they were divided.

    Bytes and integers of 16 and 32 bits are unchanged; other integers are stored in the smaller of the two types that holds them.
    Fractions become floats of 32 bits.  If any is beyond ±1, where players clip, all channels are divided by the largest value, which
    keeps their proportions.
    """
    if X.dtype.kind in "iub":
        name = (
            X.dtype.name
            if X.dtype.name in STORED
            else "int16"
            if _fits_integer_type(X, np.int16)
            else "int32"
            if _fits_integer_type(X, np.int32)
            else "float32"
        )
        if name != "float32":
            return X.astype(STORED[name], copy=False), 1.0
    peak = max(1.0, float(np.abs(X, dtype=np.float64).max()))
    return np.asarray(X / peak, dtype=np.float32), peak


def _fits_integer_type(X: Array, kind: type[np.signedinteger[Any]]) -> bool:
    bounds = np.iinfo(kind)
    return bool(int(X.min()) >= bounds.min and int(X.max()) <= bounds.max)


def export_warnings(data: Any) -> Iterator[str]:
    """Yield the warnings for a data set that is written as sound."""
    if not isinstance(data, Dataset) or data.is_sparse:
        return
    kept = {"labels": data.y, "splits": data.split, "weights": data.weight}
    lost = [name for name, item in kept.items() if item is not None]
    if lost:
        yield f"WAV cannot hold {' and '.join(lost)}: they are left out"
    if data.sample_rate is None:
        yield f"no sampling rate is known: {group_digits(RATE)} Hz is written"
    peak = _scale_samples(data.X)[1]
    if peak > 1.0:
        yield f"the largest sample is {peak:.4g}: all are divided by it, because WAV holds −1 to 1"


def write(path: os.PathLike[str], data: Dataset) -> None:
    """Write a data set as WAV.  Raises DataError for rows that WAV cannot store."""
    from scipy.io import wavfile

    if data.is_sparse:
        raise DataError("/X is sparse, but WAV holds dense rows only")
    samples, _ = _scale_samples(data.X)
    if samples.nbytes > MOST_BYTES or samples.shape[1] > MOST_CHANNELS:
        rows, columns = samples.shape
        what = (
            f"{group_digits(rows)} samples of {group_digits(columns)} channels do not fit into a WAV file, which holds at most 4 GB and "
            f"65 535 channels"
        )
        raise DataError(what, hint="write HDF5, which has no such limits: -o FILE.h5")
    wavfile.write(path, data.sample_rate or RATE, samples)
