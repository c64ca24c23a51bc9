"""The table of rules by which atoms are chosen.  A new rule is one file of this folder, with a class, and one line here."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class RuleEntry:
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


def _option_set(*names: str) -> frozenset[str]:
    return frozenset(names)


ANY = _option_set("target", "candidates", "extend", "block_rows")
SEQUENTIAL = "herdcli.quadrature.rules.sequential_rules.SequentialRule"
ACTIVE = "herdcli.quadrature.rules.active_set.ActiveSetRule"
THINNING = "herdcli.quadrature.rules.kernel_thinning.ThinningRule"
TABLE: dict[str, RuleEntry] = {
    "herding": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("init", "unique", "polish", "refine", "scores"), repeats=True),
    "greedy": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("unique", "refine", "scores"), repeats=True),
    "line-search": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("init", "unique", "polish", "scores"), repeats=True),
    "open-loop": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("init", "unique", "polish", "scores"), repeats=True),
    "step": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("init", "rates", "unique", "polish", "scores"), repeats=True),
    "random": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("refine"), draws=True, repeats=True),
    "sobol": RuleEntry(path=SEQUENTIAL, reads=ANY | _option_set("refine"), draws=True, repeats=True),
    "away": RuleEntry(path=ACTIVE, reads=ANY | _option_set("scores")),
    "pairwise": RuleEntry(path=ACTIVE, reads=ANY | _option_set("scores")),
    "bpcg": RuleEntry(path=ACTIVE, reads=ANY | _option_set("scores")),
    "min-norm-point": RuleEntry(path="herdcli.quadrature.rules.min_norm_point.MinNormPointRule", reads=ANY | _option_set("scores")),
    "kernel-thinning": RuleEntry(path=THINNING, reads=_option_set("refine", "block_rows"), repeats=True),
    "compress++": RuleEntry(path=THINNING, reads=_option_set("refine", "block_rows"), repeats=True),
    "rpcholesky": RuleEntry(path="herdcli.quadrature.rules.pivoted_cholesky.CholeskyRule", reads=_option_set("target", "candidates")),
    "support-points": RuleEntry(
        path="herdcli.quadrature.rules.support_points.SupportPointsRule", reads=_option_set("refine", "unique", "block_rows")
    ),
    "facility-location": RuleEntry(
        path="herdcli.quadrature.rules.facility_location.FacilityLocationRule", reads=_option_set("refine", "unique", "block_rows")
    ),
}


def rules_reading_option(option: str) -> list[str]:
    """Return the rules that read an option."""
    return [name for name, entry in TABLE.items() if option in entry.reads]


def join_with_conjunction(names: list[str], conjunction: str) -> str:
    """Join names in a sentence: herding, greedy or random."""
    return f"{', '.join(names[:-1])} {conjunction} {names[-1]}" if len(names) > 1 else names[0]
