"""The table of learners: the settings each depends on and the state it keeps.  The updates are cases of `fast.solve_step`."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class AlgorithmEntry:
    """One line of the table.

    code          the case of `fast.solve_step` and of the loops that computes its update.
    reads         the settings among these that its update depends on: C, loss, confidence, always_update, half_life (evidence can fade),
                  task (regression by squared loss is possible), exact (the diagonal form that minimises eq. 8 coordinate by coordinate).
    second_order  whether it keeps variances of its weights.
    """

    code: int
    reads: frozenset[str]
    second_order: bool = True


def _reads(*names: str) -> frozenset[str]:
    return frozenset(names)


BY_LOSS = _reads("C", "loss", "always_update", "half_life", "task", "exact")
TABLE: dict[str, AlgorithmEntry] = {  # in the order of --help
    "nherd": AlgorithmEntry(code=0, reads=BY_LOSS),
    "arow": AlgorithmEntry(code=1, reads=BY_LOSS),
    "cw": AlgorithmEntry(code=2, reads=_reads("confidence")),
    "scw1": AlgorithmEntry(code=3, reads=_reads("C", "confidence")),
    "scw2": AlgorithmEntry(code=4, reads=_reads("C", "confidence")),
    "pa": AlgorithmEntry(code=5, reads=_reads("exact"), second_order=False),
    "pa1": AlgorithmEntry(code=6, reads=_reads("C", "exact"), second_order=False),
    "pa2": AlgorithmEntry(code=7, reads=_reads("C", "exact"), second_order=False),
    "perceptron": AlgorithmEntry(code=8, reads=_reads("exact"), second_order=False),
    "sop": AlgorithmEntry(code=9, reads=_reads("C", "always_update", "exact")),
}


def learners_using_setting(setting: str) -> frozenset[str]:
    """Return the learners whose update depends on a setting."""
    return frozenset(name for name, entry in TABLE.items() if setting in entry.reads)
