"""The recipes of docs/recipes.md, followed to the letter in a copy of the program: see `recipe_runner`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from recipe_runner import ROOT, blocks, changed, files, follow, sections, touched

QUICK = ("An option", "A rule of `kernel-herd`", "A family of `regress`")  # which the ordinary tests follow


@pytest.mark.parametrize(
    "title", [title if title in QUICK else pytest.param(title, marks=pytest.mark.slow) for title in sections() if blocks(sections()[title])]
)
def test_a_recipe_does_what_it_says(title: str, tmp_path: Path) -> None:
    follow(title, tmp_path)


@pytest.mark.parametrize("title", sections())
def test_a_recipe_touches_one_file_beside_its_new_ones(title: str) -> None:
    assert len(touched(sections()[title])) <= 1


@pytest.mark.parametrize("title", sections())
def test_a_recipe_inserts_lines_where_they_belong(title: str) -> None:
    """Whether the whole recipe works takes long to find out; that its places are there does not."""
    for block in files(sections()[title]):
        path = ROOT / block.title
        if block.language == "diff":
            assert changed(block, path.read_text(encoding="utf-8"))
        else:
            assert not path.exists()


@pytest.mark.parametrize("title", sections())
def test_a_recipe_fits_the_classes_and_functions_that_exist(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules can be imported, its classes lack no method, and what is imported in functions exists."""
    new = [block for block in files(sections()[title]) if block.language == "python"]
    for block in new:
        name = block.title.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(block.text, block.title, "exec"), vars(module))  # noqa: S102
        own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
        assert [each.__name__ for each in own if inspect.isabstract(each)] == []
    for block in blocks(sections()[title]):
        for node in ast.walk(ast.parse(block.text if block.language == "python" else "")):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("herdcli"):
                module = import_module(str(node.module))
                for each in node.names:
                    assert hasattr(module, each.name) or import_module(f"{node.module}.{each.name}")


@pytest.mark.parametrize("title", [title for title in sections() if blocks(sections()[title])])
def test_a_recipe_uses_what_it_adds_everywhere(title: str) -> None:
    """In the help, in a shell, in Python, and in a history that is run again; then the tests of the copy that concern it."""
    found = [block for block in blocks(sections()[title]) if not block.title]
    shell = "".join(block.text for block in found if block.language == "sh")
    assert re.search(r"--(help|help-all|explain \w+) \|.* grep -q", shell)
    assert "herd check --rerun" in shell
    assert "import herdcli as herd" in "".join(block.text for block in found if block.language == "python")
    assert "pytest tests/" in found[-1].text
