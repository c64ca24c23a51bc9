"""Small values and a way to run Python with real pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import herdcli
from herdcli.artifacts import Dataset

PACKAGE = Path(herdcli.__file__).resolve().parents[1]  # the folder that herdcli is imported from


@pytest.fixture
def dataset() -> Dataset:
    """Six rows of four grey values, labelled, split and weighted."""
    return Dataset(
        X=np.arange(24, dtype=np.uint8).reshape(6, 4),
        y=np.array([0, 1, 0, 1, 0, 1], dtype=np.int32),
        split=np.array([0, 0, 1, 1, 2, 2], dtype=np.uint8),
        weight=np.linspace(0.5, 1, 6),
        feature_names=["a", "b", "c", "d"],
        class_names=["even", "odd"],
        value_range=np.array([0, 23]),
        image_shape=np.array([2, 2]),
        source="made for tests",
        licence="CC0",
    )


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run a Python program, or a shell line in which $PY is Python."""

    def run(program: str, *arguments: str, shell: bool = False, **options: object) -> subprocess.CompletedProcess[bytes]:
        environment = os.environ | {"PYTHONPATH": str(PACKAGE), "PY": sys.executable, **options.pop("env", {})}  # type: ignore[arg-type]
        command = ["bash", "-c", program] if shell else [sys.executable, "-c", program, *arguments]
        options.setdefault("cwd", PACKAGE)  # where sources stand, their loops may not be compiled
        return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]

    return run
