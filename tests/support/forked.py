"""Processes of `herd` forked from one that has imported everything: they begin in milliseconds.

    python forked.py DESCRIPTOR      serves one caller at the other end of a socket
    python forked.py --listen PATH   serves the `herd` of shell scripts: any number of callers at a time

Each request carries the arguments, folder and environment, and the three standard descriptors; the answer is the exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path


class Forker:
    """The caller's side: one server, started at the first call; a call that takes too long ends it and what it runs."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._start()

    def _start(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._server = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=self._environment, cwd="/", start_new_session=True
        )  # in a session of its own, so that it can be ended with its children
        theirs.close()

    def run(self, arguments: list[str], *, folder: Path, environment: dict[str, str], streams: tuple[int, int, int], seconds: float) -> int:
        """The exit code of `herd ARGUMENTS`, negative for a signal; TimeoutError when it takes longer."""
        self._ours.settimeout(seconds)
        socket.send_fds(self._ours, [json.dumps([arguments, str(folder), environment]).encode()], list(streams))
        try:
            return int(self._ours.recv(64))
        except TimeoutError:  # its exit code must not become that of the next call
            os.killpg(self._server.pid, signal.SIGKILL)
            self.close()
            self._start()
            raise

    def close(self) -> None:
        self._ours.close()
        self._server.wait()


CLIENT = """#!{python} -IS
import json, os, resource, signal, socket, sys
shared, names = json.loads({shared!r}), {names!r}
own = {{name: value for name, value in os.environ.items() if name.startswith(names)}}
limits = [list(resource.getrlimit(getattr(resource, name))) for name in sorted(vars(resource)) if name.startswith("RLIMIT_")]
limits.append(mask := os.umask(0))
os.umask(mask)
try:
    for descriptor in (0, 1, 2):
        os.fstat(descriptor)
    names = os.listdir("/proc/self/fd")
    if [own, limits] != shared or len(names) > 4:  # the three and that of the folder
        raise OSError
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect({path!r})
    socket.send_fds(server, [json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
except OSError:  # other limits, another environment, more or fewer streams than three: a process from its start
    os.execv({herd!r}, [{herd!r}, *sys.argv[1:]])
child = int(server.recv(64))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: os.kill(child, number))
code = int(server.recv(64))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
PICTURES = ("figure", "gridspec", "collections", "backends.backend_agg", "backends.backend_svg", "backends.backend_pdf")
SHARED = ("HERD_KERNELS", "HERD_SIMD", "HERD_REQUIRE", "PYTHON", "LC_", "LANG", "MALLOC_", "LD_")  # variables that a process begins with


class Shim:
    """A folder for $PATH whose `herd` is served by one process that has imported everything."""

    def __init__(self, folder: Path, herd: Path, environment: dict[str, str]) -> None:
        self.folder, path = folder, folder / "socket"
        self._server = subprocess.Popen([sys.executable, __file__, "--listen", path], env=environment, cwd="/", stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        self._server.stdout.readline()  # it listens
        own = {name: value for name, value in environment.items() if name.startswith(SHARED)}
        limits = [list(resource.getrlimit(getattr(resource, name))) for name in sorted(vars(resource)) if name.startswith("RLIMIT_")]
        limits.append(mask := os.umask(0))
        os.umask(mask)
        shared = json.dumps([own, limits])
        client = CLIENT.format(python=sys.executable, shared=shared, names=SHARED, path=str(path), herd=str(herd))
        (folder / "herd").write_text(client)
        (folder / "herd").chmod(0o755)

    def close(self) -> None:
        self._server.kill()
        self._server.communicate()


def first(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """An environment with a folder first on its path."""
    return environment | {"PATH": f"{folder}{os.pathsep}{environment['PATH']}"}


def listen(path: str) -> None:
    """Serve every caller in a process of its own."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    while True:
        connection, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended
                pass
        if os.fork() == 0:
            listener.close()
            answer(connection)
            os._exit(0)
        connection.close()


def answer(connection: socket.socket) -> None:
    """One request: the number of the process, then its exit code."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 17, 3)
    child = os.fork()
    if child == 0:
        connection.close()
        _become_herd(json.loads(message), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.send(str(child).encode())
    connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def serve(connection: socket.socket) -> None:
    """Answer requests until the caller is gone."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 17, 3)
        if not message:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            _become_herd(json.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become_herd(request: tuple[list[str], str, dict[str, str]], descriptors: list[int]) -> None:
    """In the child: take the folder, environment and streams, run the command, end as the interpreter would."""
    import tempfile

    from herdcli.cli.main import main

    arguments, folder, environment = request
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # is remembered from the server's environment
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    code: object = 70
    try:
        main(arguments)
        code = 0
    except SystemExit as ended:
        code = ended.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _import_everything() -> None:
    import pkgutil
    from importlib import import_module

    import herdcli

    for name in ("pyarrow.csv", "pyarrow.parquet", "threadpoolctl", *(f"matplotlib.{part}" for part in PICTURES)):
        with contextlib.suppress(ImportError):
            import_module(name)
    for module in pkgutil.walk_packages(herdcli.__path__, "herdcli."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # it is the command that needs the module to say so
                import_module(module.name)


if __name__ == "__main__":
    from herdcli.cli import main as _boundary

    _boundary._limit_blas_threads()
    _import_everything()
    if sys.argv[1] == "--listen":
        listen(sys.argv[2])
    serve(socket.socket(fileno=int(sys.argv[1])))
