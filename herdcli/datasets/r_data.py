"""Data frames of R's .RData and .rda files, read by the package rdata (extra `data`), which executes no R code."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def read_frame(path: Path, name: str) -> Any:
    """Return the data frame `name` of a file as a pandas frame."""
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # files of old versions of R declare no encoding
        return rdata.read_rda(path)[name]
