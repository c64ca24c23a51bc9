"""Likeliest states of ten instances of the league: CPU seconds of whole commands, by herd's own search and by toulbar2.

    python scripts bench/networks/likeliest_states -o results/likeliest-states.tsv

The networks are those of $HERD_DATA.  Needs pytoulbar2; a command that does not end within a minute has no seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from leagues.uai import timed
from shared.real_data import FOLDER

INSTANCES = (
    "Grids_11", "Grids_12", "Grids_13", "Pedigree_11", "Promedus_30", "Alchemy_11", "CSP_11", "DBN_11", "Segmentation_11", "linkage_16",
)  # fmt: skip
SECONDS = 60.0


def main() -> None:
    """Run both on every instance, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=None)
    output = parser.parse_args().output
    lines = [f"# pytoulbar2 {metadata.version('pytoulbar2')}", "instance\therd_seconds\ttoulbar2_seconds\tsame_value"]
    for name in INSTANCES:
        seconds, values = [], []
        for solver in ("herd", "toulbar2"):
            network = FOLDER / "networks" / f"{name}.uai"
            words = [sys.executable, "-m", "herdcli", "ups-infer", str(network), "--evidence", f"{network}.evid", "--query", "mpe"]
            ended = timed(["sh", "-c", 'exec "$@" 2>&1', "sh", *words, "--solver", solver, "--format", "csv"], SECONDS)
            told = ended[0].strip().splitlines()[-1] if ended else ""
            proven = "log value " in told and "bound" not in told
            seconds.append(f"{ended[1]:.2f}" if ended and proven else "")
            values.append(float(told.partition("log value ")[2].partition(",")[0]) if proven else None)
        same = None not in values and abs(values[0] - values[1]) <= 1e-6 * abs(values[0])  # type: ignore[operator,arg-type]
        lines.append(f"{name}\t{seconds[0]}\t{seconds[1]}\t{int(same)}")
        print(lines[-1], flush=True)
    if output:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
