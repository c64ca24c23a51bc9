"""The compiled loops under gcc's AddressSanitizer and UndefinedBehaviorSanitizer: their tests, changed files and broken texts.

    python scripts checks/sanitize

The build goes to build/sanitize, beside links to the sources; the ordinary build is left alone.  Where gcc has no libasan this says so
and ends with 0.  tests/fast, and the first mutants and parsers of scripts/torture, are then run by Python with libasan loaded before
it; a finding ends the process that it is in, and is printed with its stack.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APART = ROOT / "build" / "sanitize"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",
    "HERD_KERNELS": "cython",
}
TORTURE = ("--part", "mutants", "--part", "parsers", "--count", "600", "--seconds", "3600")  # of each part


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


def checked(arguments: list[str], preloaded: str, logs: Path) -> bool:
    """Whether Python ended well with the sanitizers and this build; findings of it and its children go to files in `logs`."""
    options = {name: f"{value}:log_path={logs / 'found'}" if name.endswith("_OPTIONS") else value for name, value in OPTIONS.items()}
    environment = os.environ | options | {"LD_PRELOAD": preloaded, "PYTHONPATH": f"{APART}{os.pathsep}{APART / 'scripts'}"}
    return subprocess.run([sys.executable, "-P", *arguments], cwd=APART, env=environment, check=False).returncode == 0


def findings(logs: Path) -> list[Path]:
    """Print what was found, and forget it."""
    found = sorted(logs.iterdir())
    for path in found:
        print(path.read_text(errors="replace")[:6000], flush=True)
        path.unlink()
    return found


def main() -> int:
    """Build and test; 1 if anything was found."""
    libasan, libstdcxx = library("libasan.so"), library("libstdc++.so.6")  # whose exceptions the first takes hold of as the process begins
    if libasan is None or libstdcxx is None:
        print("skipped: this gcc has no libasan")
        return 0
    build()
    preloaded = f"{libasan} {libstdcxx}"
    print(f"sanitizers: {preloaded}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name)
        overflow = "import ctypes; ctypes.memset(ctypes.create_string_buffer(64), 0, 65)"
        if checked(["-c", overflow], preloaded, logs) or "heap-buffer-overflow" not in "".join(p.read_text() for p in logs.iterdir()):
            print("the sanitizers do not find what they must: a write behind the end of a buffer")
            return 1
        for path in logs.iterdir():
            path.unlink()
        good = checked(["-c", "from herdcli.fast import _online as m; print(m.__file__)"], preloaded, logs)
        good = good and checked(
            ["-m", "pytest", "-q", "-x", "-n", "0", "--capture=sys", "-p", "no:cacheprovider", "tests/fast"], preloaded, logs
        )
        good = good and checked(["scripts", "torture", *TORTURE], preloaded, logs)
        return int(bool(findings(logs)) or not good)


if __name__ == "__main__":
    sys.exit(main())
