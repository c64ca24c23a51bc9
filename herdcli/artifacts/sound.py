"""WAV: a column for each channel, a row for each sample."""

from __future__ import annotations

import io
import warnings
from typing import BinaryIO

from herdcli.artifacts import memory
from herdcli.artifacts.asked import Asked
from herdcli.artifacts.assemble import assemble, flattened
from herdcli.artifacts.dataset import Dataset
from herdcli.errors import DataError


def read(stream: BinaryIO, *, where: str, asked: Asked) -> Dataset:
    """The data set of a recording; its rate is told."""
    from scipy.io import wavfile

    raw = stream.read(asked.limit + 1)
    memory.require(len(raw), asked.limit, where=where)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of chunks that are no sound
            rate, X = wavfile.read(io.BytesIO(raw))
    except Exception as error:  # scipy.io raises ValueError, struct.error and others
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(
            f"the WAV file cannot be read ({reason})", where=where, hint="write PCM: sox IN.wav -e signed -b 16 OUT.wav"
        ) from error
    rows, _ = flattened(X)
    seconds = len(rows) / rate if rate else 0.0
    asked.note(f"{where}: {seconds:.3g} s at {rate} Hz, {rows.shape[1]} channel{'s' if rows.shape[1] > 1 else ''}")
    return assemble(rows, {}, {}, where=where, note=asked.note)
