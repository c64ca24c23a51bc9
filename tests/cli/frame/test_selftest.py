"""herd selftest: every answer is right here, and a wrong one is told."""

from __future__ import annotations

import csv
import io

import pytest
from click.testing import CliRunner

from herdcli.cli.main import cli
from herdcli.errors import NegativeResult
from herdcli.evaluation import selftest


def test_every_answer_is_right(herd):
    ended = herd("selftest", "--format", "csv")
    assert ended.code == 0
    rows = list(csv.DictReader(io.StringIO(ended.out.decode())))
    assert {row["topic"] for row in rows} >= {"rbm", "herding", "quadrature", "markov", "online", "ica"}
    assert {row["verdict"] for row in rows} == {"ok"}


def test_topics_that_are_not_there_are_named(herd):
    ended = herd("selftest", "--topic", "alchemy")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("herd selftest: no topic 'alchemy'; there are loops, rbm, herding, ")


def test_a_wrong_answer_is_the_result_of_the_command(monkeypatch):
    wrong = selftest.KnownAnswer("1 + 1", "Peano", 3.0, 2.0, 0.5)
    monkeypatch.setattr(selftest, "TOPICS", {"rbm": lambda: iter([wrong])})
    with pytest.raises(NegativeResult, match=r"1 of 1 answers are wrong: 1 \+ 1"):
        CliRunner().invoke(cli, ["selftest", "-q"], standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize("found", [float("nan"), float("inf"), 2.6])
def test_what_is_not_near_is_wrong(found):
    assert not selftest.KnownAnswer("", "", found, 2.0, 0.5).is_correct
