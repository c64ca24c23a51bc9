"""Where results go: whole or not at all, to files, links, pipes, devices, full disks and closed descriptors."""

from __future__ import annotations

import os
import pty
import signal
import stat
import subprocess
import threading

import pytest

BIG = ["--hidden", "9000", "--epochs", "1", "--batch-size", "all"]  # 2.3 MB, more than a pipe holds


def test_pipeline(shell, digits):
    ended = shell("herd fit-rbm digits.h5 --hidden 8 --epochs 2 | herd eval")
    assert ended.code == 0
    header, row = ended.out.decode().splitlines()
    assert header.split("\t")[:2] == ["file", "kind"]
    assert row.split("\t")[:2] == ["stdin", "rbm"]


def test_pipeline_of_three(shell):
    ended = shell("herd data digits | herd fit-rbm --hidden 8 --epochs 1 --per-class | herd eval --require 'error<0.9' > table")
    assert (ended.code, ended.out) == (0, b"")


def test_failing_command_leaves_the_next_one_without_input(shell):
    ended = shell("herd fit-rbm missing.h5 | herd eval")
    assert ended.code == 66
    assert ended.err.splitlines()[0] == "herd fit-rbm: missing.h5: there is no such file"
    assert "herd eval: stdin: nothing arrived on stdin: did the command before the pipe fail?" in ended.err


def test_output_replaces_a_file_whole_and_keeps_it_on_failure(herd, small, tmp_path, quick):
    (tmp_path / "out.h5").write_text("before")
    assert herd(*quick("missing.h5", "-o", "out.h5")).code == 66
    assert (tmp_path / "out.h5").read_text() == "before"
    assert herd(*quick("small.h5", "-o", "out.h5")).code == 0
    assert (tmp_path / "out.h5").read_bytes().startswith(b"herd-artifact 1 kind=rbm ")


def test_output_over_its_own_input(herd, digits, digits_bytes, tmp_path):
    ended = herd("convert", "digits.h5", "-o", "digits.h5")
    assert (ended.code, ended.err) == (2, "herd convert: digits.h5: -o would overwrite this input\nhint: name another file: -o FILE\n")
    assert (tmp_path / "digits.h5").read_bytes() == digits_bytes


def test_no_clobber(herd, small, tmp_path, quick):
    (tmp_path / "out.h5").write_text("before")
    ended = herd(*quick("small.h5", "-n", "-o", "out.h5"))
    assert (ended.code, ended.out) == (73, b"")
    assert (
        ended.err
        == "herd fit-rbm: out.h5: exists already, and --no-clobber is set\nhint: remove it, choose another name, or drop --no-clobber\n"
    )
    assert (tmp_path / "out.h5").read_text() == "before"
    assert herd(*quick("small.h5", "-n", "-o", "new.h5")).code == 0


def test_new_files_follow_the_umask(shell, tmp_path):
    assert shell("umask 027; herd data digits -o made.h5").code == 0
    assert stat.S_IMODE((tmp_path / "made.h5").stat().st_mode) == 0o640


def test_symbolic_link_is_followed(herd, small, tmp_path, quick):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (tmp_path / "link.h5").symlink_to("elsewhere/out.h5")
    assert herd(*quick("small.h5", "-o", "link.h5")).code == 0
    assert (tmp_path / "link.h5").is_symlink()
    assert (folder / "out.h5").read_bytes().startswith(b"herd-artifact 1 kind=rbm ")
    assert [path.name for path in folder.iterdir()] == ["out.h5"]


def test_symbolic_link_to_itself(herd, small, tmp_path, quick):
    (tmp_path / "loop.h5").symlink_to("loop.h5")
    ended = herd(*quick("small.h5", "-o", "loop.h5"))
    assert (ended.code, ended.err) == (73, "herd fit-rbm: loop.h5: is a symbolic link that leads to itself\n")


CANNOT_CREATE = {
    "missing/out.h5": "herd fit-rbm: missing/out.h5: the folder missing does not exist\nhint: mkdir -p missing\n",
    "folder": "herd fit-rbm: folder: is a directory\nhint: give the name of a file in it\n",
}


@pytest.mark.parametrize("target", CANNOT_CREATE)
def test_output_that_cannot_be_created(herd, small, tmp_path, quick, target):
    (tmp_path / "folder").mkdir()
    ended = herd(*quick("small.h5", "-o", target))
    assert (ended.code, ended.err) == (73, CANNOT_CREATE[target])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission(herd, small, tmp_path, quick):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    assert herd(*quick("small.h5", "-o", "closed/out.h5")).code == 73


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_names_of_stdout(herd, small, quick, target):
    plain = herd(*quick("small.h5"))
    named = herd(*quick("small.h5", "-o", target))
    assert (named.code, named.out) == (0, plain.out)


def test_another_descriptor(shell, small, tmp_path):
    assert shell("herd fit-rbm small.h5 --hidden 4 --epochs 2 -o /dev/fd/3 3> third.h5; herd check third.h5").code == 0
    assert (tmp_path / "third.h5").stat().st_size > 0


def test_device_is_written_to_and_not_replaced(herd, small, quick):
    assert herd(*quick("small.h5", "-o", "/dev/null")).code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_named_pipe(herd, small, tmp_path, quick):
    os.mkfifo(tmp_path / "fifo")
    arrived: list[bytes] = []
    reader = threading.Thread(target=lambda: arrived.append((tmp_path / "fifo").read_bytes()))
    reader.start()
    assert herd(*quick("small.h5", "-o", "fifo")).code == 0
    reader.join(10)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    assert arrived[0].startswith(b"herd-artifact 1 kind=rbm ")


@pytest.mark.parametrize("line", ["herd fit-rbm small.h5 --epochs 1 > /dev/full", "herd fit-rbm small.h5 --epochs 1 -o /dev/full"])
def test_full_disk(shell, small, line):
    ended = shell(line)
    assert (ended.code, ended.out) == (74, b"")
    where = "/dev/full" if "-o" in line else "stdout"
    hint = "free some disk space, or write elsewhere; TMPDIR sets the folder for temporary files"
    assert ended.err.splitlines()[-2:] == [f"herd fit-rbm: {where}: writing failed (No space left on device)", f"hint: {hint}"]


@pytest.mark.parametrize("command", ["info digits.h5", "eval model.h5", "--help", "fit-rbm --help", "completion bash"])
def test_full_disk_under_text(shell, digits, model, command):
    ended = shell(f"herd {command} > /dev/full")
    assert ended.code == 74
    assert "Traceback" not in ended.err
    assert "No space left on device" in ended.err


def test_file_size_limit(shell, digits, tmp_path):
    ended = shell("ulimit -f 100; herd fit-rbm digits.h5 --hidden 2000 --epochs 1 --batch-size all -o out.h5")
    assert ended.code == 74
    assert "herd fit-rbm: out.h5: writing failed (File too large)" in ended.err
    assert {path.name for path in tmp_path.iterdir()} == {"digits.h5"}


@pytest.mark.parametrize("command", ["fit-rbm small.h5 --hidden 4 --epochs 1", "info small.h5", "data digits"])
def test_closed_stdout(shell, small, command):
    ended = shell(f"herd {command} >&-")
    assert ended.code == 74
    assert ended.err.splitlines()[0] == f"herd {command.split()[0]}: stdout: standard output is closed"


def test_closed_stdout_does_not_matter_with_a_named_output(shell, small):
    assert shell("herd fit-rbm small.h5 --hidden 4 --epochs 1 -o out.h5 >&-; herd check out.h5").code == 0


def test_closed_stderr_and_stdin_do_not_matter(shell, small):
    assert shell("herd fit-rbm small.h5 --hidden 4 --epochs 1 -o out.h5 2>&- <&-; herd check out.h5").code == 0


def test_reader_that_goes_away(shell, digits):
    ended = shell(f"herd fit-rbm digits.h5 {' '.join(BIG)} -q | head -c 10 > start; exit ${{PIPESTATUS[0]}}")
    assert (ended.code, ended.err) == (128 + signal.SIGPIPE, "")


def on_terminal(command: list, folder, env) -> tuple[int, str, str]:
    """Run with a terminal as stdout; exit code, what the terminal shows, stderr."""
    controller, terminal = pty.openpty()
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, cwd=folder, env=env)
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(controller, 4096):
            shown += piece
    except OSError:
        pass  # the terminal is gone with its last writer
    err = running.communicate()[1]
    os.close(controller)
    return running.returncode, shown.decode(), err.decode()


@pytest.mark.parametrize(
    "arguments", [["fit-rbm", "small.h5"], ["data", "digits"], ["convert", "small.h5"]], ids=lambda arguments: arguments[0]
)
def test_binary_to_a_terminal_is_refused_with_the_ways_out(herd_command, herd_environment, small, tmp_path, arguments):
    code, shown, err = on_terminal([herd_command, *arguments], tmp_path, herd_environment())
    assert (code, shown) == (2, "")
    assert err.splitlines() == [
        f"herd {arguments[0]}: stdout: the output is binary and stdout is a terminal",
        "hint: name a file with -o FILE, redirect with > FILE, or pipe into another command: | herd eval",
    ]


def test_table_on_a_terminal_is_aligned_and_uncoloured_with_no_color(herd_command, herd_environment, model, tmp_path):
    code, shown, _ = on_terminal([herd_command, "eval", "model.h5"], tmp_path, herd_environment(NO_COLOR="1"))
    assert code == 0
    assert "\t" not in shown
    assert "\x1b" not in shown
    assert "model.h5" in shown


def test_atoms_on_a_terminal_are_a_table(herd_command, herd_environment, small, tmp_path):
    code, shown, err = on_terminal([herd_command, "kernel-herd", "small.h5", "-m", "2"], tmp_path, herd_environment())
    assert code == 0, err
    lines = shown.splitlines()
    assert lines[0] == "  run"
    assert lines[lines.index("  atoms") + 1].split()[:3] == ["atom", "row", "weight"]
    assert "herd-artifact" not in shown


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (["regress", "t.csv"], "coefficients, 95 % intervals"),
        (["em", "t.csv", "--label", "none", "--components", "2", "--covariance", "spherical"], "components (spherical covariances)"),
        (["nherd-train", "t.csv"], "strongest features"),
    ],
    ids=lambda item: item[0] if isinstance(item, list) else "",
)
def test_a_model_with_a_table_is_that_table_on_a_terminal(herd_command, herd_environment, tmp_path, arguments, title):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{i * 7 % 11},{i * 5 % 13},{int(i * i % 17 > 8)}\n" for i in range(60)))
    code, shown, err = on_terminal([herd_command, *arguments], tmp_path, herd_environment())
    assert code == 0, err
    assert f"  {title}" in shown
    assert f"{arguments[0]}: the model is not saved: -o FILE.h5 saves it" in err.splitlines()


def test_progress_stays_out_of_stdout_and_of_quiet_runs(herd_command, herd_environment, small, tmp_path):
    code, shown, err = on_terminal([herd_command, "fit-rbm", "small.h5", "-o", "out.h5", "--epochs", "1"], tmp_path, herd_environment())
    assert (code, shown) == (0, "")
    assert "\x1b" not in err


def test_data_that_ship_have_the_format_of_their_suffix(herd, tmp_path):
    """It wrote HDF5 under any name."""
    assert herd("data", "digits", "-q", "-o", "d.csv").code == 0
    assert (tmp_path / "d.csv").read_bytes()[:2] != b"he"
    assert herd("data", "digits", "-q", "-o", "d.h5").code == 0
    assert herd("convert", "d.h5", "-q", "-o", "e.csv").code == 0
    assert (tmp_path / "d.csv").read_bytes() == (tmp_path / "e.csv").read_bytes()
    assert herd("data", "digits", "-q", "-o", "d.parquet").code == 0
    assert herd("check", "d.parquet").code == 0
    refused = herd("data", "digits", "-o", "d.doc")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "herd data: d.doc: '.doc' is not a format that herd writes")
