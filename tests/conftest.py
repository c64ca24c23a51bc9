"""What every test shares: one BLAS thread, the kernels in the header, and proof of which herdcli is tested."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent

# What the compiled loops and their twins have no part in, or only as what a command happens to run: files, signals, messages, pages,
# mathematics in NumPy alone.  tests/fast holds the twins to the same bits, tests/cli/frame/test_kernels.py every command that loops
# to the same bytes on both; the tests of the topics' algorithms, which are left out here, run on both.
ONCE = (
    *("artifacts/*", "cli/*", "cluster/*", "datasets/*", "evaluation/*", "exchange/*", "faces/*"),
    *("numerics/*", "regression/*", "rows/*", "sklearn/*", "test_*"),
    *(
        f"em/test_{name}"
        for name in ("artifacts", "principal_axes", "variational_mixture", "factor*", "gmm", "lds", "quasi_newton", "sequences")
    ),
    *("herding/test_visible_herding", "online/test_mixed_merging", "online/test_model", "online/test_prediction"),
    *("rbm/test_edited", "rbm/test_pair_similarity", "rbm/likelihood/test_likelihood_tracking", "rbm/likelihood/test_population_annealing"),
    *(
        "markov/test_automatic",
        "markov/query/test_reliability",
    ),  # which algorithm is chosen or believed: their loops have tests of their own
    *(
        f"ica/test_{name}"
        for name in ("amari_distance", "filter_convention", "defaults", "densities", "maximum_likelihood", "filter_metrics", "sobi")
    ),
    *(
        "ica/test_sparse_coding",
        "ica/test_whitening",
        "quadrature/test_given",
        "quadrature/test_kernel_functions",
        "quadrature/test_targets",
    ),
    *(f"markov/*test_{name}" for name in ("beliefs", "bound", "circles", "exact", "formats", "frontier", "meanfield", "network")),
)


def pytest_report_header() -> str | list[str]:
    """Say which package and which kernels are under test."""
    import herdcli
    from herdcli import fast

    here = f"herdcli: {Path(herdcli.__file__).parent}, {fast.loops_in_use()} kernels"
    return [here, "left to the run on the compiled loops: " + " ".join(ONCE)] if _second_run() else here


def pytest_configure(config: pytest.Config) -> None:
    """With HERD_TEST_INSTALLED=1 refuse to test the source folder; with HERD_KERNELS set refuse other kernels."""
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"))  # before NumPy is imported
    import herdcli
    from herdcli import fast

    if os.environ.get("HERD_TEST_INSTALLED") == "1" and Path(herdcli.__file__).resolve().is_relative_to(SOURCE):
        raise pytest.UsageError(f"herdcli comes from the source folder {SOURCE}, not from an installation")
    wanted = os.environ.get("HERD_KERNELS")
    if wanted and fast.loops_in_use() != wanted:
        raise pytest.UsageError(f"HERD_KERNELS={wanted}, but the {fast.loops_in_use()} kernels are in use")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What needs no second kind of loops is left to the run on the compiled ones, where there are both."""
    if collection_path.suffix != ".py" or not _second_run():
        return None
    name = collection_path.relative_to(SOURCE / "tests").with_suffix("").as_posix()
    return any(fnmatchcase(name, pattern) for pattern in ONCE) or None


@cache
def _second_run() -> bool:
    from importlib.util import find_spec

    from herdcli import fast

    return os.environ.get("HERD_KERNELS") == "python" and all(find_spec(f"herdcli.fast._{topic}") for topic in fast.TWINS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--part quick` runs what `make test` runs, `--part rest` what it leaves out; without the option both are run."""
    parser.addoption("--part", choices=("quick", "rest"), help="quick: without the tests of tests/left_out.txt; rest: those alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the part of the tests that is asked for, the longest first, so that no worker is left with them at the end."""
    part = config.getoption("--part")
    if part:
        quick = _quick(items)
        config.hook.pytest_deselected(items=[item for item in items if (item in quick) != (part == "quick")])
        items[:] = [item for item in items if (item in quick) == (part == "quick")]
    items.sort(key=lambda item: item.path.name not in ("test_readme.py", "test_docs.py"))


def _quick(items: list[pytest.Item]) -> set[pytest.Item]:
    """The first case of each test function that tests/left_out.txt does not name."""
    left_out = set((SOURCE / "tests" / "left_out.txt").read_text().splitlines())
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    return {item for function, item in first.items() if function not in left_out}


@pytest.fixture(scope="session")
def herd_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The caller's environment with this installation's `herd` first, which begins in milliseconds."""
    from forked import Shim, first

    programs = Path(sys.executable).parent
    own = first(programs, dict(os.environ))
    made = Shim(tmp_path_factory.mktemp("herd"), programs / "herd", own)
    yield first(made.folder, own)
    made.close()


@pytest.fixture(autouse=True)
def no_bug_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error in this process fails the test that meets it, also one that asks for no more than another exit code than 0."""

    def report(label: str, error: BaseException) -> int:
        raise error

    monkeypatch.setattr("herdcli.cli.main._report_bug", report)
