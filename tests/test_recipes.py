"""The recipes of docs/recipes.md, followed to the letter in a copy of the program: see `recipe_runner`."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_runner import blocks, follow, sections, touched

QUICK = ("An option", "A rule of `kernel-herd`", "A family of `regress`")  # which the ordinary tests follow


@pytest.mark.parametrize(
    "title", [title if title in QUICK else pytest.param(title, marks=pytest.mark.slow) for title in sections() if blocks(sections()[title])]
)
def test_a_recipe_does_what_it_says(title: str, tmp_path: Path) -> None:
    follow(title, tmp_path)


@pytest.mark.parametrize("title", sections())
def test_a_recipe_touches_one_file_beside_its_new_ones(title: str) -> None:
    assert len(touched(sections()[title])) <= 1
