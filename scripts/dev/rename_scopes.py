"""What the names in this project's sources mean, scope by scope: for scripts/dev/rename.py."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREES = ("herdcli", "tests", "scripts")
KINDS = ("module", "name", "method", "parameter", "local", "text")
UNTOUCHED = (
    "docs/names.tsv",
    "scripts/dev/rename.py",
    "scripts/dev/rename_scopes.py",
    "scripts/dev/rename_texts.py",
    "CHANGELOG.md",
    "tests/data/",
    "results/",
)


@dataclass
class Scope:
    """One scope of a file and what it binds: for an import the module and name that it stands for."""

    kind: str
    label: str
    parent: Scope | None
    names: dict[str, set[tuple[str, str | None] | None]] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)  # names that are global or nonlocal

    def bind(self, name: str, target: tuple[str, str | None] | None = None) -> None:
        """Record a binding of a name, where the language puts it."""
        self.names.setdefault(name, set()).add(target)

    def find(self, name: str) -> Scope | None:
        """The scope whose binding a use here means; None for builtins."""
        where = self.elsewhere.get(name)
        scope: Scope | None = self
        if where == "global":
            while scope is not None and scope.parent is not None:
                scope = scope.parent
            return scope
        first = True
        while scope is not None:
            if name in scope.names and name not in scope.elsewhere and (scope.kind != "class" or first):
                return scope
            first = first and scope.kind == "comprehension" and False
            scope = scope.parent
        return None


@dataclass
class Use:
    """One place where an identifier is written and may be renamed."""

    node: ast.AST
    name: str
    scope: Scope
    line: int
    column: int
    inside: ast.JoinedStr | None = None


@dataclass
class Source:
    """A parsed file: its scopes, the uses of its names, and everything that renaming looks at."""

    path: str
    module: str
    content: bytes
    tree: ast.Module
    top: Scope
    uses: list[Use] = field(default_factory=list)
    attributes: list[tuple[ast.Attribute, Scope, ast.JoinedStr | None]] = field(default_factory=list)
    calls: list[tuple[ast.Call, Scope]] = field(default_factory=list)
    imports: list[tuple[ast.ImportFrom, Scope, str]] = field(default_factory=list)
    functions: dict[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)

    def offset(self, line: int, column: int) -> int:
        """The byte at a line (from 1) and column (bytes)."""
        return self.starts[line - 1] + column


def module_of(path: str) -> str:
    """The dotted name of a file by its folders."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Reader(ast.NodeVisitor):
    """Collects the scopes and uses of one file."""

    def __init__(self, source: Source) -> None:
        self.source, self.scope, self.joined = source, source.top, None
        self.joined: ast.JoinedStr | None = None
        self.qualified: list[str] = []

    def use(self, node: ast.AST, name: str, line: int, column: int, scope: Scope | None = None) -> None:
        """Note a use."""
        self.source.uses.append(Use(node, name, scope or self.scope, line, column, self.joined))

    def holder(self) -> Scope:
        """Where an assignment expression binds: outside comprehensions."""
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        return scope

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Names in a formatted string, whose places Python 3.11 does not always know."""
        before, self.joined = self.joined, self.joined or node
        self.generic_visit(node)
        self.joined = before

    def visit_Name(self, node: ast.Name) -> None:
        """A use or a binding."""
        if not isinstance(node.ctx, ast.Load):
            self.scope.bind(node.id)
        self.use(node, node.id, node.lineno, node.col_offset)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """An assignment in an expression."""
        self.holder().bind(node.target.id)
        self.use(node.target, node.target.id, node.target.lineno, node.target.col_offset)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """A field: its annotation means what it would outside of the class, as a name that the class binds is none of it."""
        outer = self.scope
        if outer.kind == "class" and outer.parent is not None:
            self.scope = outer.parent
        self.visit(node.annotation)
        own = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)} if node.value is not None else set()
        self.scope = outer.parent if outer.parent is not None and isinstance(node.target, ast.Name) and node.target.id in own else outer
        if node.value is not None:
            self.visit(node.value)
        self.scope = outer
        self.visit(node.target)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """An attribute of a module or object."""
        self.source.attributes.append((node, self.scope, self.joined))
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """A call, whose keywords may be parameters."""
        self.source.calls.append((node, self.scope))
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        """Names that live in an outer scope."""
        kind = "global" if isinstance(node, ast.Global) else "nonlocal"
        text = self.source.content[
            self.source.offset(node.lineno, node.col_offset) : self.source.offset(node.end_lineno, node.end_col_offset)
        ]
        for name in node.names:
            self.scope.elsewhere[name] = kind
            found = re.search(rb"\b" + name.encode() + rb"\b", text)
            assert found
            self.use(node, name, node.lineno, node.col_offset + found.start())

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import) -> None:
        """`import a.b as c`."""
        for alias in node.names:
            if alias.asname:
                self.scope.bind(alias.asname, (alias.name, None))
                self.use(alias, alias.asname, alias.end_lineno, alias.end_col_offset - len(alias.asname.encode()))
            else:
                self.scope.bind(alias.name.split(".")[0], (alias.name.split(".")[0], None))
                if "." not in alias.name:
                    self.use(alias, alias.name, alias.lineno, alias.col_offset)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from a import b as c`."""
        base = node.module or ""
        if node.level:
            package = self.source.module.split(".")
            package = package if self.source.path.endswith("__init__.py") else package[:-1]
            package = package[: len(package) - node.level + 1]
            base = ".".join([*package, *([node.module] if node.module else [])])
        self.source.imports.append((node, self.scope, base))
        for alias in node.names:
            name = alias.asname or alias.name
            self.scope.bind(name, (base, alias.name))
            if alias.asname:
                self.use(alias, name, alias.end_lineno, alias.end_col_offset - len(name.encode()))
            else:
                self.use(alias, name, alias.lineno, alias.col_offset)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """`except E as name`."""
        if node.name:
            self.scope.bind(node.name)
            self._after(node, rb"as\s+" + node.name.encode(), node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        """A capture pattern."""
        if node.name:
            self.scope.bind(node.name)
            self.use(node, node.name, node.end_lineno, node.end_col_offset - len(node.name.encode()))
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        """A capture of the rest."""
        if node.name:
            self.scope.bind(node.name)
            self.use(node, node.name, node.end_lineno, node.end_col_offset - len(node.name.encode()))

    def _after(self, node: ast.AST, pattern: bytes, name: str) -> None:
        """A use whose place the tree does not give: the first match behind the node's start."""
        start = self.source.offset(node.lineno, node.col_offset)
        found = re.compile(pattern + rb"\b").search(self.source.content, start)
        assert found, (self.source.path, node.lineno, name)
        end = found.end() - len(name.encode())
        line = self.source.content.count(b"\n", 0, end) + 1
        self.use(node, name, line, end - self.source.starts[line - 1])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class: its own scope, which functions in it do not see."""
        self.scope.bind(node.name)
        self._after(node, rb"class\s+" + node.name.encode(), node.name)
        for each in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(each)
        outer, self.scope = self.scope, Scope("class", node.name, self.scope)
        self.qualified.append(node.name)
        self.source.classes[".".join(self.qualified)] = node
        for statement in node.body:
            self.visit(statement)
        self.qualified.pop()
        self.scope = outer

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
        for each in (*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)):
            self.visit(each)
        if not isinstance(node, ast.Lambda):
            for annotation in (*(each.annotation for each in named), node.returns):
                if annotation is not None:
                    self.visit(annotation)
        outer = self.scope
        self.scope = Scope("function", getattr(node, "name", "lambda"), outer)
        if not isinstance(node, ast.Lambda):
            self.qualified.append(node.name)
            self.source.functions.setdefault(".".join(self.qualified), (node, self.scope))
        for each in named:
            self.scope.bind(each.arg)
            self.use(each, each.arg, each.lineno, each.col_offset)
        for statement in [node.body] if isinstance(node, ast.Lambda) else node.body:
            self.visit(statement)
        if not isinstance(node, ast.Lambda):
            self.qualified.pop()
        self.scope = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function or method."""
        self.scope.bind(node.name)
        self._after(node, rb"def\s+" + node.name.encode(), node.name)
        for each in node.decorator_list:
            self.visit(each)
        self._function(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """A lambda: a scope of its own."""
        self._function(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self.visit(node.generators[0].iter)
        outer, self.scope = self.scope, Scope("comprehension", "comprehension", self.scope)
        for index, generator in enumerate(node.generators):
            self.visit(generator.target)
            if index:
                self.visit(generator.iter)
            for each in generator.ifs:
                self.visit(each)
        for each in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(each)
        self.scope = outer

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension


def read(path: str) -> Source:
    """Parse one file."""
    content = (ROOT / path).read_bytes()
    source = Source(path, module_of(path), content, ast.parse(content), Scope("module", path, None))
    source.starts = [0, *(found.end() for found in re.finditer(rb"\n", content))]
    Reader(source).visit(source.tree)
    return source


@dataclass
class Row:
    """One line of the map."""

    kind: str
    old: str
    new: str
    comment: str
    number: int
    used: bool = False


def rows_of(path: Path) -> list[Row]:
    """The lines of a map."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split("\t")
        if len(parts) < 3 or parts[0] not in KINDS:
            raise SystemExit(f"{path}:{number}: not a line of the map: {line!r}")
        rows.append(Row(parts[0], parts[1], parts[2], parts[3] if len(parts) > 3 else "", number))
    twice = [old for old, count in Counter((row.kind, row.old) for row in rows if row.kind != "text").items() if count > 1]
    if twice:
        raise SystemExit(f"{path}: {twice[0][1]} is there twice")
    return rows


class Project:
    """All files, and what names in them mean."""

    def __init__(self) -> None:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        self.files = [path for path in listed if path and (ROOT / path).is_file()]
        self.sources = {
            source.module: source
            for path in self.files
            if path.endswith(".py") and path.split("/")[0] in TREES and not path.startswith(UNTOUCHED)
            for source in [read(path)]
        }
        self.packages = {source.module for source in self.sources.values() if source.path.endswith("__init__.py")} | set(TREES)
        for module in list(self.sources):
            while "." in module:
                module = module.rpartition(".")[0]
                self.packages.add(module)
        self.short = {}  # scripts and tests/support are imported by the names of their files
        for module in self.sources:
            head, _, tail = module.rpartition(".")
            if head in ("scripts", "tests.support"):
                self.short[tail] = module

    def module(self, name: str, source: Source) -> str | None:
        """The full name of a module that a file imports, or None for others' modules."""
        if name in self.sources or name in self.packages:
            return name
        if source.module.split(".")[0] in ("scripts", "tests"):
            if name in self.short:
                return self.short[name]
            _, _, tail = name.partition(".")
            if tail and f"scripts.{name}" in self.sources:
                return f"scripts.{name}"
        return None

    def meaning(self, source: Source, target: tuple[str, str | None] | None, depth: int = 0) -> tuple[str, str | None] | None:
        """What an imported name is in the end: (module, None), or (module, name) where it is defined."""
        if target is None or depth > 10:
            return None
        module = self.module(target[0], source)
        if module is None:
            return None
        if target[1] is None:
            return module, None
        there = self.sources.get(module)
        if there is not None and target[1] in there.top.names:
            for binding in there.top.names[target[1]]:
                if binding is not None:
                    found = self.meaning(there, binding, depth + 1)
                    if found is not None:
                        return found
                else:
                    return module, target[1]
        if f"{module}.{target[1]}" in self.sources or f"{module}.{target[1]}" in self.packages:
            return f"{module}.{target[1]}", None
        return None

    def of_name(self, source: Source, scope: Scope, name: str) -> tuple[str, str | None] | None:
        """What a name means at a place, if it is a module or a definition of the project."""
        holder = scope.find(name)
        if holder is None:
            return None
        for binding in holder.names[name]:
            if binding is not None:
                found = self.meaning(source, binding)
                if found is not None:
                    return found
        if holder is source.top and None in holder.names[name]:
            return source.module, name
        return None

    def of_expression(self, source: Source, scope: Scope, node: ast.AST) -> tuple[str, str | None] | None:
        """What a name or a chain of attributes means."""
        if isinstance(node, ast.Name):
            return self.of_name(source, scope, node.id)
        if isinstance(node, ast.Attribute):
            base = self.of_expression(source, scope, node.value)
            if base is not None and base[1] is None:
                return self.meaning(source, (base[0], node.attr))
        return None


def scopes(source: Source) -> list[Scope]:
    """Every scope of a file, outer ones first."""
    known: dict[int, Scope] = {id(source.top): source.top}
    for scope in [*(use.scope for use in source.uses), *(each[1] for each in source.functions.values())]:
        chain = []
        each: Scope | None = scope
        while each is not None and id(each) not in known:
            chain.append(each)
            each = each.parent
        known.update((id(each), each) for each in reversed(chain))
    return list(known.values())


def members(node: ast.ClassDef) -> set[str]:
    """Names of a class's methods, fields and attributes of self."""
    found = set()
    for each in node.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(each.name)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found.add(each.target.id)
        elif isinstance(each, ast.Assign):
            found.update(target.id for target in each.targets if isinstance(target, ast.Name))
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Attribute)
            and isinstance(each.ctx, ast.Store)
            and isinstance(each.value, ast.Name)
            and each.value.id == "self"
        ):
            found.add(each.attr)
    return found


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """The parameters of a function."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _libraries() -> frozenset[str]:
    """Names of the libraries whose objects the program uses."""
    found: set[str] = set()
    for path in (
        "numpy",
        "numpy.random",
        "numpy.linalg",
        "scipy.sparse",
        "scipy.special",
        "scipy.linalg",
        "click",
        "h5py",
        "pyarrow",
        "pytest",
    ):
        try:
            module = import_module(path)
        except ImportError:
            continue
        found.update(dir(module))
        for kind in ("ndarray", "Generator", "csr_matrix", "Context", "Option", "Group", "Dataset", "File", "Table", "MonkeyPatch"):
            found.update(dir(getattr(module, kind, None)))
    return frozenset(found)


COMMON = (
    _libraries()
    | frozenset(  # members that other programs' objects have too
        name
        for kind in (str, bytes, list, dict, set, tuple, int, float, complex, slice, type, BaseException, re.Pattern, re.Match, Path)
        for name in dir(kind)
    )
    | frozenset(
        {
            "dtype",
            "shape",
            "size",
            "ndim",
            "T",
            "sum",
            "mean",
            "min",
            "max",
            "any",
            "all",
            "copy",
            "astype",
            "reshape",
            "ravel",
            "flat",
            "read",
        }
        | {"write", "close", "open", "name", "names", "data"}
    )
)
