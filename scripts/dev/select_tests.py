"""Choose what `make test` leaves out (tests/left_out.txt), from the time that each test took.

    pytest -q -n 2 --junitxml times.xml
    python scripts dev/select_tests times.xml --seconds 330

`make test` runs the first case of each test function.  Functions are left out, the dearest first, until the others take at most
`--seconds` on one core; the quickest function of each file stays, so that every command and algorithm is there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "left_out.txt"


def times(path: str) -> dict[str, float]:
    """Seconds of each test that passed, by its id."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is None and case.find("failure") is None and case.find("error") is None:
            file = case.get("classname", "").replace(".", "/") + ".py"
            found[f"{file}::{case.get('name')}"] = float(case.get("time", 0.0))
    return found


def first_cases() -> dict[str, str]:
    """The first case of each test function, in the order in which pytest finds them."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    found: dict[str, str] = {}
    for line in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if "::" in line:
            found.setdefault(line.partition("[")[0], line)
    return found


def left_out(seconds: dict[str, float], budget: float) -> list[str]:
    """The functions to leave out.  seconds  of the first case of each function."""
    dearest = sorted(seconds, key=lambda function: (-seconds[function], function))
    stay = {function.partition("::")[0]: function for function in dearest}  # the quickest of each file
    spent, found = sum(seconds.values()), []
    for function in dearest:
        if spent <= budget:
            break
        if stay[function.partition("::")[0]] != function:
            found.append(function)
            spent -= seconds[function]
    return sorted(found)


def main() -> None:
    """Write the list, and print how much of the tests and of their time is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", help="what pytest --junitxml wrote of all tests")
    parser.add_argument("--seconds", type=float, default=300.0, help="time of the tests that are kept, on one core")
    options = parser.parse_args()
    taken = times(options.multiply)
    seconds = {function: taken.get(case, 0.0) for function, case in first_cases().items()}
    out = left_out(seconds, options.seconds)
    LIST.write_text("".join(f"{function}\n" for function in out), encoding="utf-8")
    spent = sum(seconds.values()) - sum(seconds[function] for function in out)
    print(f"{len(seconds) - len(out)} of {len(seconds)} functions, {len(taken)} cases in all; {spent:.0f} of {sum(taken.values()):.0f} s")


if __name__ == "__main__":
    main()
