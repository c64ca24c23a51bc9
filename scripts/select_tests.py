"""Choose what `make test` leaves out (tests/left_out.txt), from the time that each test took.

    pytest -q -n 2 --junitxml times.xml
    python scripts/select_tests.py times.xml --seconds 300

Kept are, in this order and as long as `--seconds` last: the quickest test of each file, then the quickest case of each test function, then
all other cases, the quickest first.  So every file of tests, and with it every command and algorithm, is there, and what is left out are
further cases and the dearest functions.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "left_out.txt"


def times(path: str) -> dict[str, float]:
    """Seconds of each test that passed, by its id."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is None and case.find("failure") is None and case.find("error") is None:
            file = case.get("classname", "").replace(".", "/") + ".py"
            found[f"{file}::{case.get('name')}"] = float(case.get("time", 0.0))
    return found


def kept(seconds: dict[str, float], budget: float) -> set[str]:
    """The tests to run: quickest of each file, of each function, then the others, within the budget."""
    files: dict[str, list[str]] = defaultdict(list)
    functions: dict[str, list[str]] = defaultdict(list)
    for test in sorted(seconds, key=lambda test: (seconds[test], test)):
        files[test.partition("::")[0]].append(test)
        functions[test.partition("[")[0]].append(test)
    first = [group[0] for group in files.values()]
    second = sorted((group[0] for group in functions.values()), key=lambda test: (seconds[test], test))
    third = sorted(seconds, key=lambda test: (seconds[test], test))
    chosen = set(first)
    left = budget - sum(seconds[test] for test in chosen)
    for test in (*second, *third):
        if test not in chosen and seconds[test] <= left:
            chosen.add(test)
            left -= seconds[test]
    return chosen


def lines(seconds: dict[str, float], chosen: set[str]) -> list[str]:
    """What is left out: a function whose cases are all left out by its name, else each case."""
    functions: dict[str, list[str]] = defaultdict(list)
    for test in seconds:
        functions[test.partition("[")[0]].append(test)
    found = []
    for function, cases in functions.items():
        out = [case for case in cases if case not in chosen]
        found += [function] if len(out) == len(cases) else out
    return sorted(found)


def main() -> None:
    """Write the list, and print how much of the tests and of their time is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", help="what pytest --junitxml wrote of all tests")
    parser.add_argument("--seconds", type=float, default=300.0, help="time of the tests that are kept, on one core")
    options = parser.parse_args()
    seconds = times(options.times)
    chosen = kept(seconds, options.seconds)
    LIST.write_text("".join(f"{line}\n" for line in lines(seconds, chosen)), encoding="utf-8")
    spent = sum(seconds[test] for test in chosen)
    print(f"{len(chosen)} of {len(seconds)} tests kept, {spent:.0f} of {sum(seconds.values()):.0f} s")


if __name__ == "__main__":
    main()
