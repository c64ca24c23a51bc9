"""The table of rules by which atoms are chosen.  A new rule is one file of this folder, with a class, and one line here."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the table.

    path     the class, a Rule, constructed with its name.
    reads    which of these options of kernel-herd it reads: init, rates, unique, polish, refine (its weights are equal), extend (its state
             is saved), block_rows (its weights are not negative), target and candidates (it can represent other targets than the rows that
             it chooses from), scores (it can represent a distribution that is known by its scores).
    draws    whether atoms are sampled from the target, so that it needs no candidates.
    repeats  whether it can choose a candidate more than once.
    """

    path: str
    reads: frozenset[str]
    draws: bool = False
    repeats: bool = False


def _reads(*names: str) -> frozenset[str]:
    return frozenset(names)


ANY = _reads("target", "candidates", "extend", "block_rows")
SEQUENTIAL = "herdcli.quadrature.rules.sequential_rules.SequentialRule"
ACTIVE = "herdcli.quadrature.rules.active_set.ActiveSetRule"
THINNING = "herdcli.quadrature.rules.kernel_thinning.ThinningRule"
TABLE: dict[str, Entry] = {
    "herding": Entry(path=SEQUENTIAL, reads=ANY | _reads("init", "unique", "polish", "refine", "scores"), repeats=True),
    "greedy": Entry(path=SEQUENTIAL, reads=ANY | _reads("unique", "refine", "scores"), repeats=True),
    "line-search": Entry(path=SEQUENTIAL, reads=ANY | _reads("init", "unique", "polish", "scores"), repeats=True),
    "open-loop": Entry(path=SEQUENTIAL, reads=ANY | _reads("init", "unique", "polish", "scores"), repeats=True),
    "step": Entry(path=SEQUENTIAL, reads=ANY | _reads("init", "rates", "unique", "polish", "scores"), repeats=True),
    "random": Entry(path=SEQUENTIAL, reads=ANY | _reads("refine"), draws=True, repeats=True),
    "sobol": Entry(path=SEQUENTIAL, reads=ANY | _reads("refine"), draws=True, repeats=True),
    "away": Entry(path=ACTIVE, reads=ANY | _reads("scores")),
    "pairwise": Entry(path=ACTIVE, reads=ANY | _reads("scores")),
    "bpcg": Entry(path=ACTIVE, reads=ANY | _reads("scores")),
    "min-norm-point": Entry(path="herdcli.quadrature.rules.min_norm_point.MinNormPointRule", reads=ANY | _reads("scores")),
    "kernel-thinning": Entry(path=THINNING, reads=_reads("refine", "block_rows"), repeats=True),
    "compress++": Entry(path=THINNING, reads=_reads("refine", "block_rows"), repeats=True),
    "rpcholesky": Entry(path="herdcli.quadrature.rules.pivoted_cholesky.CholeskyRule", reads=_reads("target", "candidates")),
    "support-points": Entry(
        path="herdcli.quadrature.rules.support_points.SupportPointsRule", reads=_reads("refine", "unique", "block_rows")
    ),
    "facility-location": Entry(
        path="herdcli.quadrature.rules.facility_location.FacilityLocationRule", reads=_reads("refine", "unique", "block_rows")
    ),
}


def reading(option: str) -> list[str]:
    """Return the rules that read an option."""
    return [name for name, entry in TABLE.items() if option in entry.reads]


def listed(names: list[str], last: str) -> str:
    """Join names in a sentence: herding, greedy or random."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else names[0]
