"""The real `herd` in real processes: how to start it, and the small inputs it is given."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import h5py
import numpy as np
import pytest
from forked import Forker, Shim, first

HERD = Path(sys.executable).with_name("herd")
SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """What a process left: exit code, stdout as bytes, stderr as text."""

    code: int
    out: bytes
    err: str


def environment(scratch: Path, **changes: str) -> dict[str, str]:
    """The caller's environment without what would change herd, and its own folder for temporary files."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "HERD_KERNELS" or not name.startswith(("HERD_", "SLURM_", "NO_COLOR", "FORCE_COLOR", "COLUMNS"))
    }
    return kept | {"TMPDIR": str(scratch), "PATH": f"{HERD.parent}:{os.environ['PATH']}", "TERM": "xterm"} | changes


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """$TMPDIR of the processes of one test."""
    return tmp_path_factory.mktemp("scratch")


def leftovers(scratch: Path, folder: Path) -> dict[str, str]:
    """Temporary files still there, and the traceback when one of them is the report of a bug."""
    files = [*scratch.iterdir(), *folder.rglob("*herd-tmp*")]
    return {path.name: path.read_text() if "traceback" in path.name else "" for path in files}


@pytest.fixture(scope="session")
def forker() -> Iterator[Callable[[str], Forker]]:
    """forker(kernels) serves processes that run on these loops; "" are those under test."""
    made: dict[str, Forker] = {}

    def of(kernels: str) -> Forker:
        if kernels not in made:
            made[kernels] = Forker(environment(Path("/nowhere"), **({"HERD_KERNELS": kernels} if kernels else {})))
        return made[kernels]

    yield of
    for server in made.values():
        server.close()


@pytest.fixture
def herd(tmp_path: Path, scratch: Path, forker: Callable[[str], Forker]) -> Callable[..., Ended]:
    """herd(*arguments, stdin=b"", env={}, kernels="") runs in tmp_path, and leaves no temporary file anywhere.

    With an environment of its own it is a process from its start, else one forked from a process that has imported herd.
    """

    def run(*arguments: object, stdin: bytes = b"", env: dict[str, str] | None = None, kernels: str = "") -> Ended:
        line = list(map(str, arguments))
        if env:
            done = subprocess.run(
                [HERD, *line], input=stdin, capture_output=True, cwd=tmp_path, env=environment(scratch, **env), timeout=SECONDS, check=False
            )
            ended = Ended(done.returncode, done.stdout, done.stderr.decode())
        else:
            ended = _forked(forker(kernels), line, stdin, tmp_path, scratch)
        assert leftovers(scratch, tmp_path) == {}
        return ended

    return run


def _forked(forker: Forker, line: list[str], stdin: bytes, folder: Path, scratch: Path) -> Ended:
    """One command with pipes around it, as subprocess.run would have them."""
    (reader, feed), (out, writer), (err, errors) = (os.pipe() for _ in range(3))
    with ThreadPoolExecutor(3) as pool:
        fed = pool.submit(_feed, feed, stdin)
        read = [pool.submit(_drain, descriptor) for descriptor in (out, err)]
        try:
            code = forker.run(line, folder=folder, environment=environment(scratch), streams=(reader, writer, errors), seconds=SECONDS)
        finally:
            for descriptor in (reader, writer, errors):
                os.close(descriptor)
        fed.result()
        stdout, stderr = (future.result() for future in read)
    return Ended(code, stdout, stderr.decode())


def _feed(descriptor: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as pipe:
        pipe.write(content)


def _drain(descriptor: int) -> bytes:
    with open(descriptor, "rb") as pipe:
        return pipe.read()


@dataclass(frozen=True)
class Told:
    """What a command in this process left, both streams as text."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """run(*arguments) is `herd` in this process, in tmp_path, so that what it calls can be replaced."""
    from herdcli.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERD_THREADS", "1")

    def invoke(*arguments: object) -> Told:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Told(int(ended.value.code or 0), out, err)

    return invoke


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose `herd` begins in milliseconds."""
    made = Shim(tmp_path_factory.mktemp("shim"), HERD, environment(Path("/nowhere")))
    yield made.folder
    made.close()


@pytest.fixture
def shell(tmp_path: Path, scratch: Path, shim: Path) -> Callable[..., Ended]:
    """shell("herd … | herd …") runs in bash with pipefail, in tmp_path."""

    def run(line: str, **env: str) -> Ended:
        command = ["bash", "-c", f"set -o pipefail; {line}"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=tmp_path,
            env=first(shim, environment(scratch, **env)),
            timeout=SECONDS,
            check=False,
        )
        assert leftovers(scratch, tmp_path) == {}
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    return run


def rows(count: int = 40, width: int = 6) -> dict[str, np.ndarray]:
    """Two noisy binary prototypes and their labels; the first rows of each class train."""
    random = np.random.default_rng(7)
    y = np.arange(count) % 2
    X = np.where(random.random((count, width)) < 0.1, 1 - y[:, None], y[:, None])
    return {"X": X.astype(np.uint8), "y": y.astype(np.int64), "split": np.repeat([0, 1, 2], [count - 20, 10, 10]).astype(np.uint8)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """small.h5: an unsealed data set of 40 binary rows of 6 with labels and a split."""
    return write_hdf5(tmp_path / "small.h5", rows())


def write_hdf5(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """A plain HDF5 file with these arrays at its root."""
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


@pytest.fixture(scope="session")
def digits_bytes() -> bytes:
    """The sealed data set that ships with herd."""
    return (files("herdcli.data") / "digits.h5").read_bytes()


@pytest.fixture
def digits(tmp_path: Path, digits_bytes: bytes) -> Path:
    """digits.h5 in tmp_path."""
    path = tmp_path / "digits.h5"
    path.write_bytes(digits_bytes)
    return path


@pytest.fixture(name="rows")
def rows_fixture() -> dict[str, np.ndarray]:
    """The arrays of small.h5."""
    return rows()


@pytest.fixture
def write() -> Callable[[Path, dict[str, np.ndarray]], Path]:
    """write(path, arrays) makes a plain HDF5 file."""
    return write_hdf5


def quick(*more: object) -> list[str]:
    """A fit of a few milliseconds; with batches this small it learns enough that nobody is warned of it."""
    return ["fit-rbm", "--hidden", "4", "--epochs", "2", "--batch-size", "5", *map(str, more)]


@pytest.fixture(name="quick")
def quick_fixture() -> Callable[..., list[str]]:
    """quick(*arguments) is the command line of a fit of a few milliseconds."""
    return quick


@pytest.fixture(scope="session")
def model_bytes(tmp_path_factory: pytest.TempPathFactory, run_plain: Callable[..., bytes]) -> bytes:
    """A tiny sealed RBM of small.h5."""
    folder = tmp_path_factory.mktemp("model")
    write_hdf5(folder / "small.h5", rows())
    return run_plain(folder, *quick("small.h5"))


@pytest.fixture
def model(model_bytes: bytes, small: Path, tmp_path: Path) -> Path:
    """model.h5 beside small.h5."""
    path = tmp_path / "model.h5"
    path.write_bytes(model_bytes)
    return path


@pytest.fixture
def start_process(tmp_path: Path, scratch: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """start_process(*arguments) begins a herd in tmp_path and does not wait for it."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        command, pipe = [HERD, *map(str, arguments)], subprocess.PIPE
        started.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=pipe, cwd=tmp_path, env=environment(scratch))
        )
        return started[-1]

    yield start
    for running in started:
        running.kill()
        running.communicate()


@pytest.fixture(scope="session")
def run_plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """run_plain(folder, *arguments) is the stdout of a herd that must succeed."""

    def run(folder: Path, *arguments: object) -> bytes:
        command = [HERD, *map(str, arguments)]
        env = environment(tmp_path_factory.mktemp("plain"))
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=folder, env=env, timeout=SECONDS, check=True
        ).stdout

    return run


@pytest.fixture(scope="session")
def herd_command() -> Path:
    """The console script."""
    return HERD


@pytest.fixture
def herd_environment(scratch: Path) -> Callable[..., dict[str, str]]:
    """herd_environment(NAME="value") for processes that a test starts itself."""
    return lambda **changes: environment(scratch, **changes)
