"""The compiled loops under gcc's AddressSanitizer and UndefinedBehaviorSanitizer: their tests.

    python scripts/sanitize.py

The build goes to build/sanitize, beside links to the sources; the ordinary build is left alone.  Where gcc has no libasan this says so
and ends with 0.  tests/fast is then run by Python with libasan loaded before it; a finding ends it and is printed with its stack.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APART = ROOT / "build" / "sanitize"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",
    "HERD_KERNELS": "cython",
}


def library(name: str) -> str | None:
    """Where the compiler has a library, None where it has none."""
    try:
        found = subprocess.run([os.environ.get("CC", "gcc"), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
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
    """Build and test; 1 if anything was found."""
    libasan = library()
    if libasan is None:
        print("skipped: this gcc has no libasan")
        return 0
    build()
    where = "from herdcli.fast import _online as m; print(m.__file__)"
    print(f"sanitizers: {libasan}", flush=True)
    if checked(["-c", where], libasan):
        return 1
    return int(checked(["-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "tests/fast"], libasan) != 0)


if __name__ == "__main__":
    sys.exit(main())
