"""--options FILE.toml: options kept in a file, below those that are typed."""

from __future__ import annotations

import pytest

SETTINGS = """
seed = 3
[fit-rbm]
hidden = 6
epochs = 1
algorithm = "cd"
centering = false
range = "0,16"
[em]
components = 3
"""


@pytest.fixture
def folder(tmp_path, herd):
    (tmp_path / "digits.h5").write_bytes(herd("data", "digits", "-o", "-").out)
    (tmp_path / "o.toml").write_text(SETTINGS)
    return tmp_path


def test_the_file_stands_for_its_words_and_typed_values_replace_them(herd, folder):
    assert herd("fit-rbm", "digits.h5", "--options", "o.toml", "--hidden", 5, "-q", "-o", "a.h5").code == 0
    words = ["--seed", 3, "--hidden", 5, "--epochs", 1, "--algorithm", "cd", "--no-centering", "--range", "0,16"]
    assert herd("fit-rbm", "digits.h5", *words, "-q", "-o", "b.h5").code == 0
    assert (folder / "a.h5").read_bytes() == (folder / "b.h5").read_bytes()
    assert b"seed=3" in herd("info", "a.h5").out


def test_lists_are_joined_or_repeat_the_option(herd, folder):
    (folder / "o.toml").write_text('columns = ["x1", "x2", "x3"]\nplot = [["trace", "a.svg"], ["means", "b.svg"]]\n')
    assert herd("em", "digits.h5", "--columns", "x1,x2,x3", "--components", 2, "-q", "-o", "typed.h5").code == 0
    (folder / "o.toml").write_text('columns = ["x1", "x2", "x3"]\n')
    assert herd("em", "digits.h5", "--options=o.toml", "--components", 2, "-q", "-o", "read.h5").code == 0
    assert (folder / "typed.h5").read_bytes() == (folder / "read.h5").read_bytes()


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("hiden = 3", 2, "o.toml: hiden: herd fit-rbm has no option --hiden\nhint: did you mean --hidden?\n"),
        ("[fitrbm]", 2, "o.toml: [fitrbm] is not a command\nhint: did you mean fit-rbm?\n"),
        ("hidden = true", 65, "o.toml: hidden: this option needs a value, not true\n"),
        ("centering = 1", 65, "o.toml: centering: the value must be true or false, not 1\n"),
        ("hidden = {a = 1}", 2, "o.toml: [hidden] is not a command\nhint: 'herd --help' lists the commands\n"),
        ("hidden = 1979-05-27", 65, "o.toml: hidden: the value must be a text, a number, true, false, or a list of texts or numbers\n"),
        ('options = "o.toml"', 2, "o.toml: options: an options file cannot name another options file\n"),
        (
            "[",
            65,
            "o.toml: is not TOML: Invalid initial character for a key part (at end of document)\n"
            "hint: a line for each option, such as: hidden = 100\n",
        ),
    ],
)
def test_a_bad_file_is_one_line(herd, folder, content, code, message):
    (folder / "o.toml").write_text(content)
    ended = herd("fit-rbm", "digits.h5", "--options", "o.toml", "-o", "m.h5")
    assert (ended.code, ended.err) == (code, f"herd fit-rbm: {message}")
    assert not (folder / "m.h5").exists()


def test_a_missing_file_and_an_output_in_its_place_are_refused(herd, folder):
    ended = herd("em", "digits.h5", "--options", "none.toml", "-o", "m.h5")
    assert (ended.code, ended.err) == (66, "herd em: none.toml: there is no such file\n")
    ended = herd("em", "digits.h5", "--options", "o.toml", "-o", "o.toml")
    assert (ended.code, ended.err) == (2, "herd em: o.toml: -o would overwrite this input\nhint: name another file: -o FILE\n")
    assert (folder / "o.toml").read_text() == SETTINGS
