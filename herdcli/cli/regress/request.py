"""What a user asks of `herd regress`."""

from __future__ import annotations

from herdcli.cli.frame.request import input_file, unrecorded, where_changed, where_given
from herdcli.records import dataclass

WEIGHT_KINDS = ("precision", "frequency", "trials", "exposure")
FORMS = ("ar1", "variance")  # of the errors' covariance; anything else names a file


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd regress`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    target: str | None
    family: str | None
    offset: str | None
    weights: str | None
    l2: float
    l1: float
    gamma_scale: float
    iterations: int
    split: str | None
    on_nonconvergence: str
    seed: int
    gls: str | None = where_changed(None, lambda value: value if str(value).partition(":")[0] in FORMS else "file")
    sequence: str | None = where_given()
    one_pass: bool = where_changed(False)
    penalty: str | None = where_given()
    weight_kind: str | None = where_given()
    trials: str | None = where_given()
    failures: str | None = where_given()
    exposure: str | None = where_given()
    dispersion: str | None = where_given()
