"""Where the scripts are, and how one starts another."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
ROOT = SCRIPTS.parent


def script(name: str) -> list[str]:
    """The words after `python` that run a script by its path below `scripts`, from any folder."""
    return [str(SCRIPTS), name]
