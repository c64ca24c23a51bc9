"""`run` of tests/cli: a command in this process, in tmp_path."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Callable[..., tuple[int, str]]:
    """run("convert", "a.h5", …) -> exit code and stderr."""
    from herdcli.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERD_THREADS", "1")

    def invoke(*arguments: object) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return int(ended.value.code or 0), capfd.readouterr().err

    return invoke
