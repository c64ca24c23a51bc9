"""Processes of `herd` forked from one that has imported everything: they begin in milliseconds.

    python forked.py DESCRIPTOR      serves one caller at the other end of a socket

Each request carries the arguments, folder and environment, and the three standard descriptors; the answer is the exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path


class Forker:
    """The caller's side: one server, started at the first call."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, cwd="/")
        theirs.close()

    def run(self, arguments: list[str], *, folder: Path, environment: dict[str, str], streams: tuple[int, int, int], seconds: float) -> int:
        """The exit code of `herd ARGUMENTS`, negative for a signal; TimeoutError when it takes longer."""
        self._ours.settimeout(seconds)
        socket.send_fds(self._ours, [json.dumps([arguments, str(folder), environment]).encode()], list(streams))
        return int(self._ours.recv(64))

    def close(self) -> None:
        self._ours.close()
        self._server.wait()


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

    import pyarrow.parquet  # noqa: F401

    import herdcli

    for module in pkgutil.walk_packages(herdcli.__path__, "herdcli."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # it is the command that needs the module to say so
                import_module(module.name)


if __name__ == "__main__":
    from herdcli.cli import main as _boundary

    _boundary._limit_blas()
    _import_everything()
    serve(socket.socket(fileno=int(sys.argv[1])))
