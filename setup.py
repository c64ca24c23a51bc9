"""Build of the compiled inner loops; everything else is declared in pyproject.toml.

HERD_REQUIRE_EXT=1   a loop that does not compile fails the build (releases, CI).
HERD_PUREPYTHON=1    nothing is compiled; the NumPy loops are used.
HERD_SANITIZE=1      with gcc's AddressSanitizer and UndefinedBehaviorSanitizer, into build/sanitize (scripts/checks/sanitize.py runs it).
Otherwise a loop that does not compile is left out with a warning, and its NumPy twin is used.
"""

import os
import re
import sys
from glob import glob

from setuptools import Extension, find_packages, setup

# No fast-math, no fused multiply-add: the compiled loops give the bits of their NumPy twins.
# No -march=native: a wheel runs on every machine of its architecture.
# No -g, which Python's own flags ask for: it would be most of a wheel's size.
SANITIZE = os.environ.get("HERD_SANITIZE") == "1"
CHECKED = ["-fsanitize=address,undefined"]
FLAGS = ["-O1", "-g1", "-fno-omit-frame-pointer", "-ffp-contract=off", *CHECKED] if SANITIZE else ["-O3", "-g0", "-ffp-contract=off"]
APART = {"build_lib": "build/sanitize", "build_temp": "build/sanitize/temp", "inplace": False} if SANITIZE else {}


def headers(source: str, found: frozenset[str] = frozenset()) -> frozenset[str]:
    """The headers beside a source that it includes, and those that they include."""
    with open(source, encoding="utf-8") as file:
        named = re.findall(r"""(?:from |include )"(\w+\.(?:h|pxi))\"""", file.read())
    for path in (f"herdcli/fast/{name}" for name in named):
        if path not in found and os.path.exists(path):
            found = headers(path, found | {path})
    return found


def extensions() -> list[Extension]:
    """One extension for each herdcli/fast/*.pyx."""
    required = os.environ.get("HERD_REQUIRE_EXT") == "1"
    sources = sorted(glob("herdcli/fast/*.pyx"))
    if os.environ.get("HERD_PUREPYTHON") == "1" or not sources:
        return []
    try:
        import numpy
        from Cython.Build import cythonize
    except ImportError:
        if required:
            raise
        print("herd: Cython and NumPy are needed to compile the inner loops; the NumPy loops will be used", file=sys.stderr)
        return []
    declared = [
        Extension(
            source.removesuffix(".pyx").replace("/", "."),
            [source],
            include_dirs=["herdcli/fast", numpy.get_include()],
            depends=sorted(headers(source)),
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            extra_compile_args=FLAGS,
            extra_link_args=CHECKED if SANITIZE else [],
        )
        for source in sources
    ]
    built: list[Extension] = cythonize(declared, build_dir="build/cython", language_level=3)
    for extension in built:
        extension.optional = not required  # cythonize returns new objects: set on what it returns, or it is lost
    return built


setup(
    packages=[*find_packages(include=["herdcli", "herdcli.*"]), "herdcli.data"],
    package_dir={"herdcli.data": "data"},
    ext_modules=extensions(),
    options={"build_ext": {"parallel": os.cpu_count(), **APART}},
)
