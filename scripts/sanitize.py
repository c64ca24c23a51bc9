"""The compiled loops under gcc's AddressSanitizer and UndefinedBehaviorSanitizer: their tests, and hostile files and texts.

    python scripts/sanitize.py --seconds 180

The build goes to build/sanitize, beside links to the sources; the ordinary build is left alone.  Where gcc has no libasan this says so
and ends with 0.  tests/fast, mutants of artifacts and broken texts are then read by Python with libasan loaded before it; a finding
ends a child and is printed with its stack.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APART = ROOT / "build" / "sanitize"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",
    "HERD_KERNELS": "cython",
}


def library() -> str | None:
    """libasan of the compiler, None where there is none."""
    try:
        found = subprocess.run([os.environ.get("CC", "gcc"), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    path = Path(found.stdout.strip())
    return str(path.resolve()) if path.is_absolute() and path.exists() else None


def build() -> None:
    """The loops with sanitizers, and everything else of the package beside them."""
    environment = os.environ | {"HERD_SANITIZE": "1", "HERD_REQUIRE_EXT": "1"}
    environment.pop("HERD_PUREPYTHON", None)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext"], cwd=ROOT, env=environment, check=True)
    for folder in ("herdcli", "tests", "scripts", "data"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.pyx", "*.h")
        shutil.copytree(ROOT / folder, APART / folder, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(ROOT / "scripts/torture/shim.h", APART / "scripts/torture")
    shutil.copy(ROOT / "pyproject.toml", APART)


def checked(arguments: list[str], libasan: str) -> int:
    """Exit code of Python with the sanitizers and this build."""
    environment = os.environ | OPTIONS | {"LD_PRELOAD": libasan, "PYTHONPATH": f"{APART}{os.pathsep}{APART / 'scripts'}"}
    return subprocess.run([sys.executable, "-P", *arguments], cwd=APART, env=environment, check=False).returncode


def main() -> int:
    """Build, test, torture; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=180, help="of tests and torture, after the build")
    options = parser.parse_args()
    libasan = library()
    if libasan is None:
        print("skipped: this gcc has no libasan")
        return 0
    build()
    where = "from herdcli.fast import _online as m; print(m.__file__)"
    print(f"sanitizers: {libasan}", flush=True)
    if checked(["-c", where], libasan):
        return 1
    began = time.monotonic()
    tests = checked(["-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "tests/fast"], libasan)
    left = max(30.0, options.seconds - (time.monotonic() - began))
    torture = checked(["scripts/torture.py", "--part", "mutants", "--part", "parsers", "--seconds", str(left)], libasan)
    return 1 if tests or torture else 0


if __name__ == "__main__":
    sys.exit(main())
