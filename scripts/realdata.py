"""Where the papers' data sets are: $HERD_DATA, else ../shared/data beside the project."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("HERD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
