"""What a user asks of `herd network`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.request import input_file, unrecorded, where_changed
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

USED_BY = {"rows": ("grid",), "columns": ("grid",), "nodes": ("tree", "random"), "degree": ("random",)}
DESCRIPTION_FORMATS = ("json", "csv", "parquet")
MADE = ("sigma_w", "sigma_b", "observe", "sigma_alpha", "seed")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd network`; names and meanings are those of its --help."""

    structure: str
    source: str = input_file()
    format: str | None = unrecorded()
    input_format: str | None = unrecorded()
    rows: int
    columns: int
    nodes: int
    degree: float
    sigma_w: float
    sigma_b: float
    observe: str | None
    sigma_alpha: float
    evidence: str | None = where_changed(None, lambda value: "file")
    steps: int = where_changed(10)
    missing_rows: str = where_changed("refuse")
    seed: int

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options without effect on this structure."""
        if self.structure != "from-hmm":
            session.ignored("evidence", f"with {self.structure}")
        if self.structure != "unroll":
            session.ignored("steps", f"with {self.structure}")
        if self.structure in ("convert", "describe", "from-hmm", "unroll"):
            for option in (*USED_BY, *(name for name in MADE if name != "seed" or self.structure != "describe")):
                session.ignored(option, f"with {self.structure}")
            return
        for option, users in USED_BY.items():
            if self.structure not in users:
                session.ignored(option, f"with {self.structure}")
        if self.observe is None:
            session.ignored("sigma_alpha", "without --observe")
