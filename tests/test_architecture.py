"""The rules of docs/design.md, held by walking the syntax trees: who may import whom, and what nobody may do.

Every rule is also shown a source that breaks it, so that none of them passes by finding nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "herdcli"
TOPICS = frozenset({"rbm", "faces", "herding", "quadrature", "markov", "online", "ica", "em", "regression", "rows"})
GROUND = frozenset({"errors", "records", "rng", "schema", "shards", "splits", "fast", "parts"})

# part of the package -> the parts it may import besides itself
ALLOWED: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "records": frozenset(),
    "rng": frozenset(),
    "schema": frozenset({"errors", "records"}),
    "shards": frozenset({"errors", "records"}),
    "splits": frozenset({"errors", "schema"}),
    "command_table": frozenset(),
    "dialect": frozenset({"errors", "records"}),
    "spreadsheet_text": frozenset(),
    "fast": frozenset({"errors", "records", "schema"}),
    "iterate": frozenset({"errors", "records"}),
    "algorithm": frozenset({"iterate", "records"}),
    "numerics": GROUND | {"iterate", "algorithm"},
    "parts": frozenset({"errors"}),
    "kind_entry": frozenset({"errors", "records", "parts"}),
    "kinds": frozenset({"errors", "records", "parts", "kind_entry"}),
    "scratch": frozenset(),
    "sandbox": frozenset(),
    "artifacts": GROUND | {"kinds", "kind_entry", "scratch", "dialect", "spreadsheet_text"},
    "evaluation": GROUND | TOPICS | {"iterate", "algorithm", "numerics", "kinds", "spreadsheet_text"},
    "cluster": GROUND | {"iterate", "algorithm", "numerics", "scratch"},
    "data": frozenset(),
    "datasets": frozenset({"errors", "records", "schema", "artifacts"}),
    "exchange": GROUND | TOPICS | {"numerics", "kinds", "__version__"},
    "sklearn": frozenset({"errors", "schema", "artifacts", "engine", "evaluation"}),
    "notebook": frozenset({"errors", "records", "schema", "kinds", "evaluation"}),
    **dict.fromkeys(TOPICS, GROUND | {"iterate", "algorithm", "numerics"}),
}
PURE = TOPICS | {"numerics", "algorithm", "iterate", "records", "rng", "schema", "shards", "splits", "errors", "fast"}
KEPT_FROM_PURE = frozenset({"click", "rich", "h5py", "pyarrow", "matplotlib", "subprocess", "tempfile", "shutil", "argparse", "logging"})
KEPT_FROM_ALL = ("scipy.stats", "pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "sklearn", "torch", "pandas")
KEPT_FOR_CLUSTERS = ("dask", "distributed", "dask_jobqueue", "dask_kubernetes", "cloudpickle")
OPTIONAL = {  # libraries of an extra, imported when they are asked for
    "herdcli.ica.external_libraries": ("sklearn",),
    "herdcli.sklearn": ("sklearn",),
}


def imports(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each thing imported anywhere in a module, relative imports resolved."""
    for node in walked(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


@cache
def walked(tree: ast.AST) -> list[ast.AST]:
    """All nodes, found once for all rules."""
    return list(ast.walk(tree))


def within(name: str, package: str) -> bool:
    """Whether a dotted name is a package or something inside it."""
    return name == package or name.startswith(package + ".")


def part_of(dotted: str) -> str:
    """herdcli.rbm.model -> rbm."""
    return [*dotted.split("."), ""][1]


def upward_imports(module: str, tree: ast.AST) -> list[str]:
    """Imports between parts of the package that the layers do not allow."""
    part = part_of(module)
    if part not in ALLOWED:
        return []
    allowed = ALLOWED[part] | {part, "__version__"}
    return [
        f"line {line} imports {name}" for line, name in imports(tree, module) if within(name, "herdcli") and part_of(name) not in allowed
    ]


DOTTED = re.compile(r"herdcli(?:\.\w+)+(?::\w+)?")
TABLES_OF_NAMES = {"herdcli.command_table", "herdcli.kinds"}  # says where everything is, for those above to import


def dotted_names(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a module can import by a text: constants, the beginnings of f-strings, and names after a dot."""
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.lineno, node.value.replace(":", ".")
        if (
            isinstance(node, ast.JoinedStr)
            and isinstance(first := node.values[0], ast.Constant)
            and str(first.value).startswith("herdcli.")
        ):
            yield node.lineno, str(first.value).rstrip(".")
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if isinstance(name, str) and name.startswith("."):
                level = len(name) - len(name.lstrip("."))
                yield node.lineno, ".".join([*module.split(".")[:-level], name.lstrip(".")])


def hidden_upward_imports(module: str, tree: ast.AST) -> list[str]:
    """Names of modules in texts, which import_module takes, between parts that the layers keep from each other."""
    part = part_of(module)
    if part not in ALLOWED or module in TABLES_OF_NAMES:
        return []
    allowed = ALLOWED[part] | {part, "__version__"}
    return [f"line {line} names {name}" for line, name in dotted_names(tree, module) if part_of(name) not in allowed]


def foreign_imports(module: str, tree: ast.AST) -> list[str]:
    """Libraries for files, terminals and processes inside the algorithms."""
    if part_of(module) not in PURE:
        return []
    return [f"line {line} imports {name}" for line, name in imports(tree, module) if name.split(".")[0] in KEPT_FROM_PURE]


def banned_imports(module: str, tree: ast.AST) -> list[str]:
    """Imports that nobody in the package may make: slow ones, unsafe ones, those that are no dependencies."""
    own = next((names for place, names in OPTIONAL.items() if within(module, place)), ())
    kept = [name for name in KEPT_FROM_ALL if name not in own]
    return [f"line {line} imports {name}" for line, name in imports(tree, module) if any(within(name, banned) for banned in kept)]


def dask_elsewhere(module: str, tree: ast.AST) -> list[str]:
    """Dask outside of the one package that may use it, or imported there before it is asked for."""
    found = [(line, name) for line, name in imports(tree, module) if name.partition(".")[0] in KEPT_FOR_CLUSTERS]
    late = [outer for outer in walked(tree) if isinstance(outer, ast.FunctionDef) or is_for_type_checkers(outer)]
    lazy = {node.lineno for outer in late for node in ast.walk(outer) if hasattr(node, "lineno")}
    return [f"line {line} imports {name}" for line, name in found if part_of(module) != "cluster" or line not in lazy]


def is_for_type_checkers(node: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`, whose imports are never run."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not node.orelse


def unsafe_calls(module: str, tree: ast.AST) -> list[str]:
    """eval, exec, allow_pickle=…, shell=…."""
    found = []
    for node in (node for node in walked(tree) if isinstance(node, ast.Call)):
        if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec", "compile", "__import__"}:
            found.append(f"line {node.lineno} calls {node.func.id}")
        for keyword in node.keywords:
            harmless = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg in {"allow_pickle", "shell"} and not harmless:
                found.append(f"line {node.lineno} passes {keyword.arg}")
    return found


def input_and_output(module: str, tree: ast.AST) -> list[str]:
    """print and open inside the algorithms."""
    if part_of(module) not in PURE | {"evaluation"}:
        return []
    calls = (node for node in walked(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return [f"line {node.lineno} calls {node.func.id}" for node in calls if node.func.id in {"print", "open", "input"}]


def long_functions(module: str, tree: ast.AST) -> list[str]:
    """Functions whose body has more than 80 lines."""
    functions = (node for node in walked(tree) if isinstance(node, ast.FunctionDef))
    sized = ((node, (node.end_lineno or 0) - node.body[0].lineno + 1) for node in functions)
    return [f"line {node.lineno}: {node.name} has {size} lines" for node, size in sized if size > 80]


def mathematics_in_commands(module: str, tree: ast.AST) -> list[str]:
    """Numerical libraries imported by a command, which hands arrays on and computes nothing, and linear algebra in it."""
    if part_of(module) != "cli":
        return []
    names = list(imports(tree, module))
    found = [f"line {line} imports {name}" for line, name in names if name.split(".")[0] in {"scipy", "h5py", "pyarrow"}]
    found += [f"line {line} imports {name}" for line, name in names if within(name, "numpy.linalg")]
    uses = (node for node in walked(tree) if isinstance(node, ast.Attribute) and node.attr == "linalg")
    return found + [f"line {node.lineno} uses linalg" for node in uses]


EXACT = (
    "herdcli.rbm",
    "herdcli.quadrature",
    *(f"herdcli.evaluation.{name}" for name in ("figures.rbm", "metrics.partition_functions")),
    *(f"herdcli.evaluation.baselines.{name}" for name in ("logistic", "energy_classification")),
)
INEXACT = {
    *("herdcli.rbm.pair_similarity", "herdcli.rbm.pairs", "herdcli.rbm.recurrent"),
    *(
        f"herdcli.quadrature.{name}"
        for name in (
            "embeddings.closed_form_embeddings",
            "embeddings.random_fourier",
            "embeddings.nystrom",
            "kernels.stein_kernels",
            "targets",
        )
    ),
}
ALSO_EXACT = {"herdcli.numerics.nearest_neighbours", "herdcli.numerics.scores"}
ROUNDED_SOMEHOW = re.compile(
    r"(np\.(dot|vdot|inner|matmul|tensordot|convolve|correlate|cov|corrcoef|(float_)?power|hypot|(log|geom)space|a?sinh?|a?cosh?|a?tanh?)"
    r"|np\.(exp2?|expm1|log(2|10|1p|addexp2?)?)(\.reduce)?|np\.linalg\.\w+|math\.(exp|expm1|log|log10|log1p|pow|tanh|erf)"
    r"|\w+\.(standard_normal|normal|poisson|binomial|standard_gamma))$"
)
KNOWN = {  # what decides nothing that is written with --exact, or is refused with it
    "herdcli.quadrature.kernels.kernel_functions": {"np.linalg.eigvalsh", "**="},
    "herdcli.quadrature.input_preparation": {"**"},
    "herdcli.quadrature.sobol_sequence": {"**"},  # of 2
    "herdcli.quadrature.atom_weights": {"np.log10", "np.logspace"},
    "herdcli.rbm.units.poisson": {"generator.poisson"},
    "herdcli.rbm.units.rate": {"generator.binomial"},
}


def arithmetic_of_libraries(module: str, tree: ast.AST) -> list[str]:
    """What numerics.real and numerics.linear have in the place of functions that round as processor and BLAS have it."""
    known = KNOWN.get(module, set())
    if not (module in ALSO_EXACT or any(within(module, part) for part in EXACT)) or any(within(module, part) for part in INEXACT):
        return []
    found = []
    for node in walked(tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
            found.append((node.lineno, "@"))
        if isinstance(node, ast.Call) and ROUNDED_SOMEHOW.match(ast.unparse(node.func)):
            found.append((node.lineno, ast.unparse(node.func)))
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Pow):
            exponent = node.right if isinstance(node, ast.BinOp) else node.value
            if isinstance(exponent, ast.UnaryOp) and not isinstance(exponent.operand, ast.Constant):
                found.append((node.lineno, "**" if isinstance(node, ast.BinOp) else "**="))
            elif isinstance(exponent, ast.BinOp) and any(isinstance(part, ast.Div) for part in ast.walk(exponent)):
                found.append((node.lineno, "**"))
    return [f"line {line} uses {name}" for line, name in found if name not in known]


def endless_decompositions(module: str, tree: ast.AST) -> list[str]:
    """Singular values by LAPACK, which does not return from a row of infinities, but for numerics.linear, which asks first."""
    named = {"svd", "pinv", "lstsq"}
    uses = [node for node in walked(tree) if isinstance(node, ast.Attribute) and node.attr in named]
    found = [f"line {node.lineno} uses {node.attr}" for node in uses if ast.unparse(node.value) == "np.linalg"]
    return [] if module == "herdcli.numerics.symmetric_matrices" else found


RULES = {
    endless_decompositions: [("herdcli.em.x", "np.linalg.svd(A)"), ("herdcli.evaluation.x", "np.linalg.lstsq(A, b)")],
    upward_imports: [
        ("herdcli.rbm.x", "from herdcli.artifacts import load"),
        ("herdcli.rbm.x", "def f():\n    from ..herding import dynamics"),
    ],
    hidden_upward_imports: [
        ("herdcli.records", "import_module('herdcli.notebook').html(1)"),
        ("herdcli.rbm.x", "TABLE = {'a': 'herdcli.cli.fit_rbm.model_runs:Model'}"),
        ("herdcli.numerics.x", "import_module(f'herdcli.artifacts.{name}')"),
        ("herdcli.rbm.x", "import_module('..artifacts.codec', __package__)"),
    ],
    foreign_imports: [("herdcli.numerics.x", "import h5py"), ("herdcli.rbm.x", "from rich.console import Console")],
    banned_imports: [("herdcli.cli.x", "from scipy import stats"), ("herdcli.rbm.x", "import pickle")],
    dask_elsewhere: [("herdcli.cli.x", "def f():\n    import distributed"), ("herdcli.cluster.x", "from distributed import Client")],
    unsafe_calls: [("herdcli.cli.x", "eval('1')"), ("herdcli.artifacts.x", "np.load(f, allow_pickle=True)")],
    input_and_output: [("herdcli.rbm.x", "print(1)"), ("herdcli.evaluation.x", "open('f')")],
    long_functions: [("herdcli.rbm.x", "def f():\n" + "    x = 1\n" * 81)],
    arithmetic_of_libraries: [
        ("herdcli.rbm.x", "a @ b"),
        ("herdcli.quadrature.x", "a @= b"),
        ("herdcli.quadrature.x", "np.linalg.eigh(a)"),
        ("herdcli.rbm.x", "np.logaddexp.reduce(a)"),
        ("herdcli.evaluation.baselines.logistic", "np.exp(a)"),
        ("herdcli.rbm.x", "draws.standard_normal(3)"),
        ("herdcli.quadrature.x", "a **= -b"),
        ("herdcli.quadrature.x", "a ** (1 / n)"),
    ],
    mathematics_in_commands: [
        ("herdcli.cli.x", "from scipy.special import expit"),
        ("herdcli.cli.x", "import numpy as np\nnp.linalg.pinv(A)"),
        ("herdcli.cli.x", "from numpy.linalg import pinv"),
        ("herdcli.cli.x", "from numpy import linalg"),
    ],
}


def module_name(path: Path) -> str:
    """herdcli/rbm/model.py -> herdcli.rbm.model; an __init__ keeps its own name, so that relative imports resolve alike."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.AST:
    """The syntax of a file."""
    return ast.parse(content(path))


@cache
def content(path: Path) -> str:
    """The text of a file."""
    return path.read_text()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_rule(rule):
    broken = {module_name(path): rule(module_name(path), parsed(path)) for path in MODULES}
    assert len(MODULES) > 20
    assert {name: lines for name, lines in broken.items() if lines} == {}


@pytest.mark.parametrize(("rule", "module", "source"), [(rule, *case) for rule, cases in RULES.items() for case in cases])
def test_rule_finds_what_breaks_it(rule, module, source):
    assert rule(module, ast.parse(source)) != []


def test_every_part_of_the_package_has_a_place_in_the_layers():
    parts = {
        path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - set(ALLOWED) == {"__init__", "__main__", "cli", "engine", "python_inputs", "results"}


def test_only_commands_use_the_artifacts():
    users = {
        part_of(module_name(path))
        for path in MODULES
        for _, name in imports(parsed(path), module_name(path))
        if within(name, "herdcli.artifacts")
    }
    assert users == {"artifacts", "cli", "datasets", "engine", "python_inputs", "sklearn"}


def test_numerics_holds_what_two_topics_share():
    users: dict[str, set[str]] = {}
    for path in MODULES:
        name = module_name(path)
        for _, found in imports(parsed(path), name):
            if within(found, "herdcli.numerics"):
                users.setdefault(".".join(found.split(".")[:3]), set()).add(name)

    def topics(module: str) -> set[str]:
        """Those that use it, also by way of others of numerics."""
        direct = users.get(module, set()) - {module}
        return {part_of(user) for user in direct} & TOPICS | {t for user in direct if part_of(user) == "numerics" for t in topics(user)}

    modules = {name for path in MODULES if part_of(name := module_name(path)) == "numerics" and path.stem != "__init__"}
    assert {module: sorted(topics(module)) for module in modules if len(topics(module)) < 2} == {}


# The house ----------------------------------------------------------------------------------------------------


@cache
def drawing() -> dict[str, set[str]]:
    """Who imports whom, file by file, imports inside functions and for types alone included."""
    names = {module_name(path).removesuffix(".__init__"): path for path in MODULES}

    def home(name: str) -> str | None:
        while name and name not in names:
            name = name.rpartition(".")[0]
        return name or None

    found = {}
    for module, path in names.items():
        targets = (home(name) for _, name in imports(parsed(path), module) if within(name, "herdcli"))
        found[module] = {target for target in targets if target and target not in {module, "herdcli"}}
    return found


def circles(drawn: dict[str, set[str]]) -> list[list[str]]:
    """Files that import each other round about."""
    from graphlib import CycleError, TopologicalSorter

    rest, found = dict(drawn), []
    while True:
        try:
            list(TopologicalSorter(rest).static_order())
            return found
        except CycleError as error:
            circle = error.args[1]
            found.append(circle)
            rest = {module: targets - {circle[0]} if module == circle[1] else targets for module, targets in rest.items()}
            rest = {module: targets - {circle[1]} if module == circle[0] else targets for module, targets in rest.items()}


def arrows(drawn: dict[str, set[str]], floor: str) -> set[tuple[str, str]]:
    """Pairs of rooms of one floor, of which the first imports from the second."""

    def room(module: str) -> str:
        return ".".join(module.split(".")[:3])

    own = {module: targets for module, targets in drawn.items() if within(module, floor) and module != floor}
    return {(room(a), room(b)) for a, targets in own.items() for b in targets if b in own and room(a) != room(b)}


def test_no_file_imports_itself_round_about():
    assert circles(drawing()) == []


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []


@pytest.mark.parametrize(("floor", "shared"), [("herdcli.cli", {"frame"}), ("herdcli.markov", {"model", "method"})])
def test_few_arrows_between_the_rooms_of_a_floor(floor, shared):
    """Beside what all rooms import from, there are fewer arrows than rooms."""
    found = arrows(drawing(), floor)
    rooms = {room for arrow in found for room in arrow}
    beside = [arrow for arrow in found if arrow[1].rpartition(".")[2] not in shared]
    assert 5 <= len(beside) < len(rooms), sorted(beside)


def test_options_are_parsed_once():
    loose = re.compile(r"\b(?:options|parameters): (?:dict|Mapping)\[str, Any\]")
    frame = {"herdcli/cli/frame/options/common_options.py", "herdcli/cli/frame/history/request.py"}
    found = {
        str(path.relative_to(ROOT)): len(loose.findall(content(path)))
        for path in MODULES
        if loose.search(content(path)) and str(path.relative_to(ROOT)) not in frame
    }
    assert found == {}


def test_commands_name_their_types():
    count = sum(len(re.findall(r"\bAny\b", content(path))) for path in MODULES if within(module_name(path), "herdcli.cli"))
    assert count < 60


def test_histories_name_no_place_of_a_file():
    """What an option that takes a file is recorded as: its content is among the inputs, its path is one machine's."""
    import dataclasses
    from importlib import import_module

    from herdcli.cli.main import COMMANDS

    seen, told = 0, {}
    for name, (module, _) in COMMANDS.items():
        imported = import_module(module)
        asked = {each.name: each for each in dataclasses.fields(getattr(imported, "Request", object))} if name != "completion" else {}
        for option in imported.command.params:
            if option.name in asked and re.search(r"FILE|MODEL|NETWORK|DATA|ARTIFACT|INPUT|SHARD", option.metavar or ""):
                shown = asked[option.name].metadata.get("record", str)("/elsewhere/a.h5")
                seen += 1
                if shown == "/elsewhere/a.h5":
                    told[f"{name} {option.name}"] = shown
    assert seen > 30
    assert told == {}


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Public classes and functions of a module, and public methods, by their dotted names."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{prefix}{node.name}.")


def is_interface(node: ast.AST) -> bool:
    """A Protocol, or an ABC: what says once what the methods of several classes do."""
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) or ast.unparse(base) == "ABC" for base in node.bases)


@pytest.mark.parametrize("part", sorted(TOPICS | {"numerics"}))
def test_public_names_of_topics_say_what_they_are(part):
    """A method may be described by the interface that it belongs to."""
    files = {path: parsed(path) for path in (PACKAGE / part).rglob("*.py")}
    described = {
        method.name
        for tree in [*files.values(), parsed(PACKAGE / "algorithm.py")]
        for node in tree.body
        if is_interface(node)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
    }
    names = [(path, name, node) for path, tree in files.items() for name, node in public(tree.body)]
    silent = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, name, node in names
        if not (ast.get_docstring(node) or ("." in name and name.rpartition(".")[2] in described))
    ]
    assert len(silent) <= 0.05 * len(names), silent


GROUP = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
NUMBER = re.compile(r"\bthe number\b|\ba (?:number|scalar)\b|\belementwise\b", re.IGNORECASE)


def is_shape(inside: str) -> bool:
    """Dimensions as in (n, D), (K,), (..., units), (2R, count · group): a comma, and no entry that is prose."""
    entries = [entry.strip() for entry in inside.split(",")]
    if len(entries) < 2 or any(len(entry) > 16 for entry in entries):
        return False
    words = [re.findall(r"[^\W\d_]+", entry) for entry in entries]
    prose = any(
        len(found) > 2 or (len(found) == 2 and not re.search(r"[^\w\s]|Σ", entry)) for found, entry in zip(words, entries, strict=True)
    )
    return not prose and (
        entries[-1] == "" or any(entry == "..." or entry.isdigit() or len(entry) <= 2 or "·" in entry for entry in entries)
    )


def has_shape(text: str) -> bool:
    """Does a docstring tell the shape of an array, or that it is about a number?"""
    return any(is_shape(inside) for inside in GROUP.findall(text)) or bool(NUMBER.search(text))


def takes_arrays(node: ast.AST) -> bool:
    """A function with a parameter or a result that is an Array."""
    if not isinstance(node, ast.FunctionDef):
        return False
    given = [each.annotation for each in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
    return any(each is not None and re.search(r"\bArray\b", ast.unparse(each)) for each in [*given, node.returns])


@pytest.mark.parametrize("part", ["numerics", "quadrature", "rbm"])
def test_docstrings_tell_the_shapes_of_arrays(part):
    """95 in 100 public functions and methods have a docstring of their own, and those about arrays tell shapes."""
    names = {f"{path.relative_to(PACKAGE)}: {name}": node for path in sorted((PACKAGE / part).rglob("*.py"))
             for name, node in public(parsed(path).body)}  # fmt: skip
    silent = [name for name, node in names.items() if not ast.get_docstring(node)]
    with_arrays = [name for name, node in names.items() if takes_arrays(node)]
    shapeless = [name for name in with_arrays if not has_shape(ast.get_docstring(names[name]) or "")]
    assert len(with_arrays) > 15
    assert len(silent) <= 0.05 * len(names), silent
    assert len(shapeless) <= 0.05 * len(with_arrays), shapeless


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Rows (n, D).", True),
        ("(K,) float64.", True),
        ("(..., units) of the family.", True),
        ("(len(numbers), count · group) float64.", True),
        ("(Σ card,) flat.", True),
        ("1 / (1 + e^{−a}) elementwise.", True),
        ("The number of rows.", True),
        ("Σ w x, of rows (all of them, as they are).", False),
        ("The density exp(a).", False),
        ("Rows of the input (see there).", False),
        ("Rows (dense, sparse).", False),
    ],
)
def test_a_shape_in_a_docstring_is_found(text, told):
    assert has_shape(text) is told
