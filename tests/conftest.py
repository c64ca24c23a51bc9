"""What every test shares: one BLAS thread, the kernels in the header, and proof of which herdcli is tested."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent


def pytest_report_header() -> str:
    """Say which package and which kernels are under test."""
    import herdcli
    from herdcli import fast

    return f"herdcli: {Path(herdcli.__file__).parent}, {fast.kernels()} kernels"


def pytest_configure(config: pytest.Config) -> None:
    """With HERD_TEST_INSTALLED=1 refuse to test the source folder; with HERD_KERNELS set refuse other kernels."""
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"))  # before NumPy is imported
    import herdcli
    from herdcli import fast

    if os.environ.get("HERD_TEST_INSTALLED") == "1" and Path(herdcli.__file__).resolve().is_relative_to(SOURCE):
        raise pytest.UsageError(f"herdcli comes from the source folder {SOURCE}, not from an installation")
    wanted = os.environ.get("HERD_KERNELS")
    if wanted and fast.kernels() != wanted:
        raise pytest.UsageError(f"HERD_KERNELS={wanted}, but the {fast.kernels()} kernels are in use")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, so that no worker is left with them at the end; examples of the manual once, on the faster loops."""
    from importlib.util import find_spec

    from herdcli import fast

    items.sort(key=lambda item: item.path.name not in ("test_readme.py", "test_docs.py"))
    if fast.kernels() == "python" and all(find_spec(f"herdcli.fast._{topic}") for topic in fast.TWINS):
        elsewhere = pytest.mark.skip(reason="examples run on the compiled loops, which are here too")
        for item in items:
            if item.get_closest_marker("examples"):
                item.add_marker(elsewhere)
