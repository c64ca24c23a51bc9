"""Stages of `make quick` or `make results` whose data sets are not there, and those that read their tables.

    python scripts papers/stages_without_data quick results            the names of the stages, for make
    python scripts papers/stages_without_data quick results --report   a line for each, with the reason; the same into left-out.csv

left-out.csv, in the folder of the tables, is read by scripts/papers/check_results.py: claims that need these tables are not judged.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from pathlib import Path

from shared.figure_pipeline import write_csv
from shared.real_data import is_there, remedy

ROOT = Path(__file__).resolve().parents[2]


def described(kind: str, folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, list[str]]]:
    """Of each stage, as make knows them: its files, its data sets, and the tables of other stages that it reads."""
    line = ["make", "--no-print-directory", "-s", "stages", f"RESULTS={folder}"]
    flags = re.sub(r"\s-j\d*|\s--jobserver-\S+", "", os.environ.get("MAKEFLAGS", ""))  # the slots of the make that asks are not passed on
    environment = os.environ | {"MAKEFLAGS": flags}
    lines = subprocess.run(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, dict[str, list[str]]] = {kind: {}, f"{kind}-data": {}, f"{kind}-needs": {}}
    for line in lines.splitlines():
        label, _, rest = line.partition(": ")
        name, *items = rest.split()
        found.get(label, {})[name] = items
    return found[kind], found[f"{kind}-data"], found[f"{kind}-needs"]


def left_out(files: dict[str, list[str]], data: dict[str, list[str]], needs: dict[str, list[str]]) -> dict[str, str]:
    """Stage -> why it is left out."""
    reasons = {}
    for name, sets in data.items():
        missing = [each for each in sets if not is_there(each)]
        if missing:
            reasons[name] = "; ".join(f"{each} is not there: {remedy(each)}" for each in missing)
    for name in files:  # in the order of the stages, each after those whose tables it reads
        absent = [other for other in reasons if set(needs.get(name, ())) & set(files[other])]
        if absent and name not in reasons:
            reasons[name] = f"it reads tables of {', '.join(absent)}"
    return reasons


def main() -> None:
    """Names for make, or lines for people."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["quick", "results"])
    parser.add_argument("folder", type=Path, help="RESULTS of make")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    files, data, needs = described(options.kind, options.folder)
    reasons = left_out(files, data, needs)
    if not options.report:
        print(*reasons)
        return
    place = options.folder / "quick" if options.kind == "quick" else options.folder
    rows = [
        {"file": str(Path(file).relative_to(place)), "stage": name, "reason": reason}
        for name, reason in reasons.items()
        for file in files[name]
    ]
    if rows:
        write_csv(ROOT / place / "left-out.csv", rows)
    else:
        (ROOT / place / "left-out.csv").unlink(missing_ok=True)
    print(f"{len(files) - len(reasons)} of {len(files)} stages are done")
    for name, reason in reasons.items():
        print(f"left out: {name} ({reason})")


if __name__ == "__main__":
    main()
