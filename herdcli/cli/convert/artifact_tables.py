"""`herd convert ARTIFACT -o TABLE.csv` or TABLE.parquet: the main table of an artifact that is no data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.message_numbers import group_digits
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.output.summary_text import state_names_by_column
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.run.session import Session

OF_ROWS = ("subsample", "mask", "equalize", "transpose", "patches", "segments", "log", "binarize", "keep", "hold_outs", "split")


def write_main_table(session: Session, request: Request, artifact: Artifact, form: str) -> None:
    """Write coefficients, components, marginals, atoms or another main table as CSV or Parquet (`form`), with all digits.

    Raises BadUsage for kinds without a table, and for options that change rows of data.
    """
    from herdcli.evaluation.summaries.whole_tables import arrow_table, main_table_columns
    from herdcli.evaluation.table import to_csv

    if any(getattr(request, name) for name in OF_ROWS):
        raise BadUsage(
            "options that change rows work only with data sets",
            where=artifact.name,
            hint=f"leave them out for an artifact of kind {artifact.kind}",
        )
    columns = main_table_columns(artifact.kind, artifact.value, state_names_by_column(artifact.recoding))
    cells = [item.tolist() if hasattr(item, "tolist") else list(item) for item in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]
    summary = f"{group_digits(len(rows))} rows × {len(columns)} columns of the {artifact.kind}"
    if form == "parquet":
        outputs.write_parquet_table(session, arrow_table(columns), summary)
    else:
        outputs.write_text_result(session, to_csv(rows), summary, "csv")
