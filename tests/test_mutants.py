"""What scripts/checks/mutants.py changes and what it leaves, and that what tests/mutants.toml tells of is there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "checks" / "mutants.py")
mutants = importlib.util.module_from_spec(_spec)
sys.modules["mutants"] = mutants
_spec.loader.exec_module(mutants)


def made(folder: Path, source: str) -> set[tuple[str, str, str]]:
    """Function, old and new of every change of a source."""
    path = folder / "herdcli" / "em" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    return {(each.function, each.old, each.new) for each in mutants.candidates(folder)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a):\n    return a < 3", {("f", "a < 3", "((a) <= (3))"), ("f", "3", "(3 + 1)")}),
        ("def f(a):\n    return a < LIMIT", {("f", "a < LIMIT", "((a) >= (LIMIT))")}),
        (
            "class A:\n    def f(self):\n        return -self.x * 0.5",
            {("A.f", "-self.x * 0.5", "((-self.x) / (0.5))"), ("A.f", "0.5", "(0.5 / 2)")},
        ),
        ("def f():\n    def g():\n        return 1.0\n    return g", {("f.<locals>.g", "1.0", "(1.0 + 1)")}),
        ("def f(a=2):\n    pass", {("f", "2", "(2 + 1)")}),
        ("LIMIT = 3\nTINY: float = 0.5\nLEAST, MOST = 1, 2", set()),
        ("def f(a):\n    return a.reshape([-1, 2])", {("f", "2", "(2 + 1)")}),
        ("def f(a):\n    return a.max(-1)", {("f", "1", "(1 + 1)")}),
        ("class A:\n    count: int = 3", set()),
        ("class A(Protocol):\n    def f(self, a=3): ...", set()),
        ("def f(a):\n    block = max(1, (1 << 20) // a)\n    return block", set()),
        ("def f(a):\n    return max(1, LIMIT // a)", set()),
        ("def memory(a):\n    return 8 * a\ndef size_bytes(a):\n    return 8 * a\ndef block(a):\n    return 8 * a", set()),
        ("def f(a: Literal[3]) -> Literal[4]:\n    raise ValueError(f'{a + 1}', 2)", set()),
        ("def f(a):\n    return a == 'x', f'{a * 2}', g(maxsize=3), 1e-9", {("f", "a == 'x'", "((a) != ('x'))")}),
    ],
)
def test_what_is_changed_and_what_is_left(tmp_path, source, expected):
    assert made(tmp_path, source) == expected


def test_faults_by_hand_stand_once_in_the_sources():
    faults = mutants.by_hand(ROOT)
    assert len(faults) >= 11
    assert all(mutant.function for mutant in faults)


def test_every_explanation_has_a_mutant_and_a_reason():
    of: dict[str, list[mutants.Mutant]] = {}
    for each in mutants.explanations(ROOT):
        if each["path"] not in of:
            of[each["path"]] = mutants.candidates(ROOT, each["path"].partition("*")[0])
        assert each["why"]
        assert any(mutants.explained(mutant, [each]) for mutant in of[each["path"]]), each


def test_a_changed_module_is_what_is_imported(tmp_path):
    """In a process of its own, without a file that is altered."""
    made(tmp_path, "def f():\n    return 2 * 3\n")
    (mutant,) = [each for each in mutants.candidates(tmp_path) if each.new == "((2) / (3))"]
    loader = mutants.Changed(mutant, tmp_path)
    assert loader.name == "herdcli.em.x"
    space: dict[str, object] = {}
    exec(loader.get_code(loader.name), space)  # noqa: S102
    assert space["f"]() == pytest.approx(2 / 3)
    assert "2 * 3" in (tmp_path / mutant.path).read_text()
    assert mutants.fork(lambda: 7) == 7
    assert mutants.fork(lambda: mutants.time.sleep(60) or 0, 0.05) is None
