"""Output appears whole or not at all, in files, pipes, devices and FIFOs; input comes from any of them."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import pty
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest

from herdcli.artifacts import Dataset, atomic_file, load, save
from herdcli.artifacts.atomic_output import check_destination, scratch_file
from herdcli.errors import BadUsage, CannotCreate, DataError, Locked, NoInput, WriteFailed

Run = Callable[..., "CompletedProcess[bytes]"]
SAVE = "import sys, numpy as np; from herdcli.artifacts import *; save(sys.argv[1], Dataset(X=np.zeros((500, 100))), [])"
LOAD = "import sys; from herdcli.artifacts import *; print(load(sys.argv[1]).value.X.shape)"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_the_body_ends(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with atomic_file(str(target)) as temporary:
        temporary.write_text("new")
        assert names(tmp_path) == [".out.herd-tmp"]
    assert names(tmp_path) == ["out"]
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_body_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(str(target)) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_the_leftover_of_a_killed_run_is_used_again(tmp_path: Path) -> None:
    (tmp_path / ".out.herd-tmp").write_text("a longer text from a run that was killed")
    with atomic_file(str(tmp_path / "out")) as temporary:
        temporary.write_text("new")
    assert (tmp_path / "out").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    with atomic_file(str(tmp_path / "out")) as temporary:
        with pytest.raises(Locked) as caught, atomic_file(str(tmp_path / "out")):
            pass
        assert caught.value.exit_code == 75
        temporary.write_text("first")
    assert (tmp_path / "out").read_text() == "first"


def test_no_clobber_keeps_what_exists_even_if_it_appears_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(CannotCreate, match="exists already"), atomic_file(str(target), clobber=False) as temporary:
        temporary.write_text("new")
        target.write_text("theirs")
    assert target.read_text() == "theirs"
    with pytest.raises(CannotCreate, match="exists already"):
        check_destination(str(target), clobber=False)
    assert names(tmp_path) == ["out"]
    with atomic_file(str(tmp_path / "fresh"), clobber=False) as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == ["fresh", "out"]


def test_symbolic_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/real")
    with atomic_file(str(tmp_path / "link")) as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder/real").read_text() == "new"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CannotCreate, match="leads to itself"):
        check_destination(str(tmp_path / "loop"))


@pytest.mark.parametrize(("target", "message"), [("", "is a directory"), ("no/such/out", "does not exist"), ("file/out", "does not exist")])
def test_places_where_nothing_can_be_written_are_named(tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    for attempt in (check_destination, lambda path: atomic_file(path).__enter__()):
        with pytest.raises(CannotCreate, match=message) as caught:
            attempt(str(tmp_path / target))
        assert caught.value.exit_code == 73


def test_a_very_long_name_can_be_written(tmp_path: Path) -> None:
    with atomic_file(str(tmp_path / ("n" * 255))) as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == ["n" * 255]


def test_a_fifo_is_fed_and_stays_a_fifo(tmp_path: Path, dataset: Dataset) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=save, args=(str(fifo), dataset, []))
    writer.start()
    value = load(str(fifo)).value
    writer.join()
    assert (value.X == dataset.X).all()
    assert fifo.is_fifo()


def test_a_pipe_carries_the_same_bytes_as_a_file(tmp_path: Path, python: Run) -> None:
    piped = python(SAVE, "-")
    assert (piped.returncode, piped.stderr) == (0, b"")
    python(SAVE, str(tmp_path / "out.h5"))
    assert piped.stdout == (tmp_path / "out.h5").read_bytes()
    assert python(LOAD, "-", input=piped.stdout).stdout == b"(500, 100)\n"


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_names_of_stdout_are_written_like_stdout(tmp_path: Path, python: Run, target: str) -> None:
    done = python(f'echo first > {tmp_path}/log; "$PY" -c "$PROGRAM" {target} >> {tmp_path}/log', shell=True, env={"PROGRAM": SAVE})
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "log").read_bytes() == b"first\n" + python(SAVE, "-").stdout


def test_a_full_device_is_a_failed_write(python: Run) -> None:
    program = SAVE.replace("save(", "\ntry: save(") + "\nexcept HerdError as error: print(error, error.exit_code, file=sys.stderr)"
    program = "from herdcli.errors import HerdError\n" + program
    for line in ('"$PY" -c "$PROGRAM" /dev/full', '"$PY" -c "$PROGRAM" - > /dev/full'):
        done = python(line, shell=True, env={"PROGRAM": program})
        assert b"No space left on device" in done.stderr
        assert done.stderr.endswith(b" 74\n")


def test_a_disk_that_fills_leaves_nothing(tmp_path: Path, python: Run) -> None:
    random = SAVE.replace("np.zeros((500, 100))", "np.random.default_rng(0).random((500, 100))")
    program = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); {random}"
    for name in ("out.h5", "out.parquet", "out.npz", "out.csv", "out.svmlight"):
        done = python(program, str(tmp_path / name))
        assert b"WriteFailed" in done.stderr, done.stderr.decode()
        assert names(tmp_path) == []


def test_a_closed_stdout_is_a_failed_write(python: Run) -> None:
    done = python('"$PY" -c "$PROGRAM" - >&-', shell=True, env={"PROGRAM": SAVE})
    assert b"WriteFailed: stdout: standard output is closed" in done.stderr


def test_a_reader_that_leaves_is_a_broken_pipe(python: Run) -> None:
    big = SAVE.replace("(500, 100)", "(5000, 500)")
    done = python('"$PY" -c "$PROGRAM" - | head -c 1 > /dev/null', shell=True, env={"PROGRAM": big})
    assert b"BrokenPipeError" in done.stderr


def test_binary_to_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        with pytest.raises(BadUsage) as caught:
            check_destination("-")
        check_destination("-", binary=False)
    os.close(leader)
    assert all(way in (caught.value.hint or "") for way in ("-o FILE", "> FILE", "| herd"))


def test_a_pipe_that_is_slow_to_empty_gets_everything(tmp_path: Path, dataset: Dataset) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    received = bytearray()

    def drain() -> None:
        while piece := os.read(reader, 50_000):
            received.extend(piece)

    thread = threading.Thread(target=drain)
    thread.start()
    with atomic_file(f"/dev/fd/{writer}") as temporary:
        temporary.write_bytes(source.read_bytes())
    os.close(writer)
    thread.join()
    os.close(reader)
    assert bytes(received) == source.read_bytes()


def test_empty_stdin_asks_about_the_command_before(python: Run) -> None:
    done = python(LOAD, "-", input=b"")
    assert b"NoInput: stdin: nothing arrived on stdin: did the command before the pipe fail?" in done.stderr
    assert b"stdin is closed" in python('"$PY" -c "$PROGRAM" - <&-', shell=True, env={"PROGRAM": LOAD}).stderr


def test_inputs_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for path, message in ((tmp_path, "is a directory"), (tmp_path / "absent", "there is no such file"), (tmp_path / "\0", "null byte")):
        with pytest.raises(NoInput, match=message):
            load(str(path))
    with pytest.raises(DataError, match="the file is empty"):
        load(str(tmp_path / "empty"))


def test_stdin_may_be_a_file_or_half_read(tmp_path: Path, python: Run, dataset: Dataset) -> None:
    path = tmp_path / "data.h5"
    save(str(path), dataset, [])
    assert python('"$PY" -c "$PROGRAM" - < "$0"'.replace("$0", str(path)), shell=True, env={"PROGRAM": LOAD}).stdout == b"(6, 4)\n"
    line = f'(echo skipped; cat "{path}") > "{tmp_path}/both"; (read _; "$PY" -c "$PROGRAM" -) < "{tmp_path}/both"'
    assert python(line, shell=True, env={"PROGRAM": LOAD}).stdout == b"(6, 4)\n"


def test_locks_asked_of_hdf5_do_not_get_in_the_way(tmp_path: Path, python: Run) -> None:
    for mode in ("TRUE", "FALSE", "BEST_EFFORT"):
        done = python(SAVE, str(tmp_path / "out.h5"), env={"HDF5_USE_FILE_LOCKING": mode})
        assert (done.returncode, done.stderr) == (0, b""), mode


def test_a_cut_or_changed_pipe_is_refused(python: Run) -> None:
    data = bytearray(python(SAVE, "-").stdout)
    assert b"cut short" in python(LOAD, "-", input=bytes(data[:-1])).stderr
    data[100_000] ^= 1
    assert b"do not match the seal" in python(LOAD, "-", input=bytes(data)).stderr


def test_no_temporary_file_stays(tmp_path: Path, python: Run) -> None:
    data = python(SAVE, "-", env={"TMPDIR": str(tmp_path)}).stdout
    for given in (data, data[:-1], b"1,2\n3,4\n", gzip.compress(data)):
        python(LOAD, "-", input=given, env={"TMPDIR": str(tmp_path)})
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["out.h5", "out.csv", "out.npz", "out.parquet", "out.svmlight"])
def test_compressed_inputs_are_unwrapped_and_damage_is_noticed(tmp_path: Path, dataset: Dataset, name: str) -> None:
    save(str(tmp_path / name), dataset, [])
    plain = (tmp_path / name).read_bytes()
    identity = load(str(tmp_path / name))
    for compressed in (gzip.compress(plain), pa.compress(plain, "zstd", asbytes=True)):
        path = tmp_path / "compressed"
        path.write_bytes(compressed)
        artifact = load(str(path))
        assert (artifact.sha256, artifact.value.X.shape) == (identity.sha256, identity.value.X.shape)
        path.write_bytes(compressed[:-9])
        with pytest.raises(DataError):
            load(str(path))


def test_a_compressed_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"1,2\n" * 3_000_000))
    with pytest.raises(DataError, match="more than the"):
        load(str(path), max_memory=1_000_000)


def test_errors_of_the_body_other_than_a_full_disk_pass_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_file(str(tmp_path / "out")):
        raise FileNotFoundError(errno.ENOENT, "another file")
    with pytest.raises(WriteFailed, match="No space left"), atomic_file(str(tmp_path / "out")):
        raise OSError(errno.ENOSPC, "full")
    assert names(tmp_path) == []


def test_a_link_at_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "out"
    victim.write_text("mine")
    (tmp_path / ".out.herd-tmp").hardlink_to(victim)
    with atomic_file(str(target)) as temporary:
        temporary.write_text("new")
    assert victim.read_text() == "mine"
    assert target.read_text() == "new"
    assert names(tmp_path) == [".out.herd-tmp", "out", "victim"]


@pytest.mark.parametrize(("call", "number"), [("fchmod", errno.EPERM), ("fchmod", errno.ENOTSUP), ("fchmod", errno.ENOSYS)])
def test_a_file_system_without_modes_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """FAT and CIFS refuse fchmod; what is written is whole all the same."""
    monkeypatch.setattr(os, call, failing(number))
    with atomic_file(str(tmp_path / "out")) as temporary:
        temporary.write_text("new")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("call", ["ftruncate", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EPERM, errno.EROFS])
def test_a_call_that_fails_is_a_failed_write_of_that_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    monkeypatch.setattr(os, call, failing(number))
    with pytest.raises(WriteFailed, match=re.escape(os.strerror(number))) as caught, atomic_file(str(tmp_path / "out")) as temporary:
        temporary.write_text("new")
    assert caught.value.where == str(tmp_path / "out")
    assert names(tmp_path) == []


def test_a_close_that_fails_behind_the_last_sync_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with atomic_file(str(tmp_path / "out")) as temporary:
        temporary.write_text("new")
        monkeypatch.setattr(os, "close", close)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text() == "new"


def test_what_arrow_says_of_a_close_that_fails_is_a_failed_write(tmp_path: Path) -> None:
    with pytest.raises(WriteFailed, match=r"writing failed \(Input/output error\)"), atomic_file(str(tmp_path / "out")):
        raise OSError("error closing file")
    assert names(tmp_path) == []


def failing(number: int) -> Callable[..., None]:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no unnamed files")
def test_a_killed_run_leaves_no_scratch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with scratch_file() as path:
        path.write_bytes(b"something")
        assert path.read_bytes() == b"something"
        assert names(tmp_path) == []  # so that nothing stays when the process is killed here
