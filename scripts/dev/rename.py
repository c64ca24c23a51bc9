"""Give modules, classes, functions, methods, parameters and locals the names of a map: python scripts dev/rename [--check] [MAP]

The map (default docs/names.tsv) has a line for each name, its columns separated by tabs:

    module     herdcli.artifacts.people              unsealed_hdf5
    name       herdcli.artifacts.people.found        find_arrays            (a function, class or constant of a module)
    method     herdcli.online.parts.Learner.told     summary
    parameter  herdcli.artifacts.files.load(asked)   options
    local      herdcli.artifacts.files.load:found    dataset                (a variable of a function, or of `Class.method`)
    text       herdcli/kinds.py                      OLD        NEW         (a replacement in one file, for names inside strings)

A fourth column of the other kinds is a comment.  All paths are the old ones.  Modules below `tests` and `scripts` have the names of their
folders in front.

Files move with `git mv`, and tests named after a module follow it.  Every use is found by its scope: imports, also under another name and
through re-exports, attributes of modules, keywords of calls, `global` statements, `__all__`, and strings in `setattr` and `getattr`.
Dotted paths and paths of files follow in strings, comments and pages.  After the edits each use is looked up again: where the new name
would be hidden by another one, or would hide one, an import keeps the old name (`import new as old`), a definition keeps its name, and both
are reported.  Names that are gone are reported too; neither stops the run.  `--check` reports and changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from dev.rename_scopes import COMMON, ROOT, UNTOUCHED, Project, Row, Scope, Source, members, module_of, parameters, rows_of, scopes
from dev.rename_texts import DOTTED, FILES, QUOTED, in_braces, swapped, tidy, word

TEXTS = (".py", ".md", ".toml", ".mk", ".yml", ".yaml", ".pyx", ".pxi", ".h", ".sh", ".in", ".cfg", ".txt", "Makefile", "Dockerfile", "run")


class Renaming:
    """The edits that a map asks for."""

    def __init__(self, project: Project, rows: list[Row]) -> None:
        self.project, self.rows = project, rows
        self.reports: list[str] = []
        self.modules: dict[str, str] = {}
        self.names: dict[tuple[str, str], str] = {}
        self.methods: dict[str, str] = {}
        self.parameters: dict[tuple[str, str], dict[str, str]] = {}  # (module, qualified function) -> old -> new
        self.renames: dict[str, dict[tuple[int, str], str]] = defaultdict(dict)
        self.aliases: dict[str, set[tuple[int, str]]] = defaultdict(set)
        self.edits: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)

    def report(self, row: Row | None, text: str) -> None:
        """Note what a person should know."""
        self.reports.append(f"{row.number}: {row.kind} {row.old} -> {row.new}: {text}" if row else text)

    # What the map says

    def take(self) -> None:
        """Sort the lines of the map by kind, refusing what is gone or in the way."""
        for row in self.rows:
            getattr(self, f"_take_{row.kind}")(row)
        for old, new in list(self.modules.items()):  # tests follow
            parts = old.split(".")
            if parts[0] == "herdcli" and len(parts) > 2:
                test = ".".join(["tests", *parts[1:-1], f"test_{parts[-1]}"])
                named = ".".join(["tests", *parts[1:-1], f"test_{new.rpartition('.')[2]}"])
                if test in self.project.sources and test not in self.modules and named not in self.project.sources:
                    self.modules[test] = named

    def _take_module(self, row: Row) -> None:
        head = row.old.rpartition(".")[0]
        new = f"{head}.{row.new}"
        if row.old not in self.project.sources:
            self.report(row, "gone")
        elif self.project.sources[row.old].path.endswith("__init__.py"):
            self.report(row, "REFUSED: a package, whose folder moves by hand")
        elif (
            new in self.project.sources and new not in {each.old for each in self.rows if each.kind == "module"}
        ) or new in self.modules.values():
            self.report(row, "REFUSED: there is a module of that name")
        else:
            self.modules[row.old] = new

    def _take_name(self, row: Row) -> None:
        module, _, name = row.old.rpartition(".")
        source = self.project.sources.get(module)
        if source is None or name not in source.top.names or all(source.top.names[name]):
            self.report(row, "gone")
        elif row.new in source.top.names and f"{module}.{row.new}" not in {each.old for each in self.rows if each.kind == "name"}:
            self.report(row, "REFUSED: the module has that name already")
        elif any(key[0] == module and value == row.new for key, value in self.names.items()):
            self.report(row, "REFUSED: two definitions would have that name")
        else:
            self.names[module, name] = row.new

    def _take_method(self, row: Row) -> None:
        owner, _, name = row.old.rpartition(".")
        module, _, label = owner.rpartition(".")
        source = self.project.sources.get(module)
        if source is None or label not in source.classes or name not in members(source.classes[label]):
            self.report(row, "gone")
            return
        asked = {(each.old, each.new) for each in self.rows if each.kind == "method" and each.old.rpartition(".")[2] == name}
        if len({new for _, new in asked}) > 1:
            self.report(row, "REFUSED: methods of one name must get one name")
            return
        others = [
            f"{each.module}.{known}"
            for each in self.project.sources.values()
            for known, body in each.classes.items()
            if name in members(body) and f"{each.module}.{known}.{name}" not in {old for old, _ in asked}
        ]
        if others or name in COMMON:
            self.report(row, f"REFUSED: also a member of {', '.join(others[:4]) or 'other programs'}")
            return
        self.methods[name] = row.new

    def _take_parameter(self, row: Row) -> None:
        path, _, name = row.old.removesuffix(")").partition("(")
        found = self._function(path)
        if found is None or name not in {each.arg for each in parameters(found[1])}:
            self.report(row, "gone")
            return
        source, _, scope, label = found
        self.renames[source.module][id(scope), name] = row.new
        self.parameters.setdefault((source.module, label), {})[name] = row.new

    def _take_local(self, row: Row) -> None:
        path, _, name = row.old.partition(":")
        found = self._function(path)
        if found is None or name not in found[2].names:
            self.report(row, "gone")
            return
        self.renames[found[0].module][id(found[2]), name] = row.new

    def _take_text(self, row: Row) -> None:
        path = ROOT / row.old
        if not path.is_file() or row.new not in path.read_text(encoding="utf-8"):
            self.report(row, "gone")

    def _function(self, path: str) -> tuple[Source, ast.FunctionDef | ast.AsyncFunctionDef, Scope, str] | None:
        parts = path.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            source = self.project.sources.get(".".join(parts[:cut]))
            if source is not None:
                label = ".".join(parts[cut:])
                if label in source.functions:
                    return source, *source.functions[label], label
        return None

    # What follows from it in each file

    def plan(self) -> None:
        """Which bindings of each file get new names, less those that would hide another or be hidden."""
        for source in self.project.sources.values():
            self._bindings(source)
        refused = True
        while refused:
            refused = False
            for source in self.project.sources.values():
                for scope, name, why in self._collisions(source):
                    refused = True
                    self._keep(source, scope, name, why)

    def _keep(self, source: Source, scope: Scope, name: str, why: str) -> None:
        new = self.renames[source.module].pop((id(scope), name))
        targets = scope.names[name]
        if any(target is not None for target in targets):
            self.aliases[source.module].add((id(scope), name))
            self.report(None, f"{source.path}: imports {new} as {name}: {why}")
        elif scope is source.top:
            self.names.pop((source.module, name), None)
            self.report(None, f"{source.path}: REFUSED {name} -> {new}: {why}")
            for other in self.project.sources.values():  # plan anew whoever imports it
                for key in [key for key in self.renames[other.module] if key[1] == name]:
                    if any(
                        binding is not None and self.project.meaning(other, binding) == (source.module, name)
                        for each in scopes(other)
                        if id(each) == key[0]
                        for binding in each.names.get(name, ())
                    ):
                        del self.renames[other.module][key]
        else:
            for known in self.parameters.values():
                if known.get(name) == new:
                    function = next((label for label, (_, inside) in source.functions.items() if inside is scope), None)
                    if function and self.parameters.get((source.module, function)) is known:
                        del known[name]
            self.report(None, f"{source.path}: REFUSED {scope.label}:{name} -> {new}: {why}")

    def _bindings(self, source: Source) -> None:
        wanted = self.renames[source.module]
        for scope in scopes(source):
            for name, targets in scope.names.items():
                if scope is source.top and None in targets and (source.module, name) in self.names:
                    wanted[id(scope), name] = self.names[source.module, name]
                for target in targets:
                    meaning = self.project.meaning(source, target)
                    if meaning is None or target is None:
                        continue
                    imported = target[1] or target[0]
                    if imported != name:
                        continue  # under a name of its own, which stays
                    if meaning[1] is None and meaning[0] in self.modules and meaning[0].rpartition(".")[2] == name:
                        wanted[id(scope), name] = self.modules[meaning[0]].rpartition(".")[2]
                    elif meaning[1] is not None and meaning in self.names and meaning[1] == name:
                        wanted[id(scope), name] = self.names[meaning[0], meaning[1]]

    def _collisions(self, source: Source) -> Iterator[tuple[Scope, str, str]]:
        """Bindings whose new names would not mean what they meant."""
        wanted = self.renames[source.module]
        if not wanted:
            return
        after: dict[int, set[str]] = {}
        seen: set[tuple[int, str]] = set()
        for scope in scopes(source):
            names = [name for name in scope.names if name not in scope.elsewhere]
            after[id(scope)] = {wanted.get((id(scope), name), name) for name in names}
            for new, count in Counter(wanted.get((id(scope), name), name) for name in names).items():
                if count > 1:
                    for name in names:
                        if wanted.get((id(scope), name)) == new and (id(scope), name) not in seen:
                            seen.add((id(scope), name))
                            yield scope, name, f"{scope.label} binds {new} already"
        for use in source.uses:
            home = use.scope.find(use.name)
            new = wanted.get((id(home), use.name), use.name) if home is not None else use.name
            scope: Scope | None = use.scope
            first = True
            while scope is not None:
                if new in after[id(scope)] and (scope.kind != "class" or first):
                    break
                first, scope = False, scope.parent
            if scope is not home and use.name not in use.scope.elsewhere:
                # the inner one gives way if it is the renamed one; else the outer one
                culprits = []
                if home is not None and (id(home), use.name) in wanted:
                    culprits.append((home, use.name))
                if scope is not None:
                    culprits += [(scope, name) for name in scope.names if wanted.get((id(scope), name)) == new]
                for culprit, name in culprits[:1]:
                    if (id(culprit), name) not in seen:
                        seen.add((id(culprit), name))
                        yield culprit, name, f"line {use.line}: {new} has another meaning there"

    # Edits

    def edit(self) -> None:
        """All edits of the trees."""
        for source in self.project.sources.values():
            self._edit_uses(source)
            self._edit_attributes(source)
            self._edit_calls(source)
            self._edit_imports(source)
            self._edit_methods(source)
            self._edit_strings(source)

    def _put(
        self, source: Source, line: int, column: int, old: str, new: str, joined: ast.JoinedStr | None = None, dot: bool = False
    ) -> None:
        if old == new:
            return
        start = source.offset(line, column)
        end = start + len(old.encode())
        before = source.content[:start].rstrip()[-1:] == b"."
        if source.content[start:end] == old.encode() and (joined is None or (not word(source.content, start, end) and before == dot)):
            self.edits[source.path][start, end] = new
            return
        if joined is None:
            self.report(None, f"{source.path}:{line}: {old} is not where it should be")
            return
        begin, stop = source.offset(joined.lineno, joined.col_offset), source.offset(joined.end_lineno, joined.end_col_offset)
        behind = rb"(?<=\.)" if dot else rb"(?<![\w.])"
        for each in re.finditer(behind + old.encode() + rb"\b(?!\s*=[^=])", source.content[begin:stop]):
            if in_braces(source.content[begin:stop], each.start()):
                self.edits[source.path][begin + each.start(), begin + each.end()] = new

    def _edit_uses(self, source: Source) -> None:
        wanted, kept = self.renames[source.module], self.aliases[source.module]
        for use in source.uses:
            home = use.scope.find(use.name)
            if home is None:
                continue
            if (id(home), use.name) in wanted:
                if isinstance(use.node, ast.alias) and use.node.asname:
                    continue
                self._put(source, use.line, use.column, use.name, wanted[id(home), use.name], use.inside)
            elif (id(home), use.name) in kept and isinstance(use.node, ast.alias) and not use.node.asname:
                for target in home.names[use.name]:
                    new = self._renamed(source, target)
                    if new:
                        self._put(source, use.line, use.column, use.name, f"{new} as {use.name}")
        names = {old: new for (scope, old), new in wanted.items() if scope == id(source.top)}
        for node in source.tree.body:
            if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets):
                for each in ast.walk(node.value):
                    if isinstance(each, ast.Constant) and each.value in names:
                        self._put(source, each.lineno, each.col_offset + 1, each.value, names[each.value])

    def _renamed(self, source: Source, target: tuple[str, str | None] | None) -> str | None:
        meaning = self.project.meaning(source, target)
        if meaning is None:
            return None
        if meaning[1] is None:
            return self.modules[meaning[0]].rpartition(".")[2] if meaning[0] in self.modules else None
        return self.names.get((meaning[0], meaning[1]))

    def _edit_attributes(self, source: Source) -> None:
        for node, scope, joined in source.attributes:
            base = self.project.of_expression(source, scope, node.value)
            if base is None or base[1] is not None:
                continue
            new = self._renamed(source, (base[0], node.attr))
            if new is not None:
                column = node.end_col_offset - len(node.attr.encode())
                self._put(source, node.end_lineno, column, node.attr, new, joined, dot=True)

    def _edit_calls(self, source: Source) -> None:
        for node, scope in source.calls:
            candidates = [node.func, *node.args[:1]]  # also partial(function, keyword=…)
            for function in candidates:
                meaning = self.project.of_expression(source, scope, function)
                known = self.parameters.get((meaning[0], meaning[1])) if meaning and meaning[1] else None
                if known is None and isinstance(function, ast.Attribute) and function is node.func:
                    known = self._of_methods(function.attr)
                for keyword in node.keywords if known else ():
                    if keyword.arg in known:
                        self._put(source, keyword.lineno, keyword.col_offset, keyword.arg, known[keyword.arg])
            if isinstance(node.func, ast.Name) and node.func.id in ("script", "import_module") and node.args:
                self._edit_script(source, node.args[0])
            if isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar"):
                for each in (*node.args, *(keyword.value for keyword in node.keywords)):
                    self._edit_type(source, scope, each)
            if isinstance(node.func, (ast.Attribute, ast.Name)) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if called in ("setattr", "getattr", "hasattr", "delattr", "object") and isinstance(node.args[1].value, str):
                    owner = self.project.of_expression(source, scope, node.args[0])
                    text = node.args[1].value
                    new = self._renamed(source, (owner[0], text)) if owner and owner[1] is None else self.methods.get(text)
                    if new:
                        self._put(source, node.args[1].lineno, node.args[1].col_offset + 1, text, new)

    def _edit_script(self, source: Source, node: ast.expr) -> None:
        """The name of a script that is imported by a string."""
        text = node.value if isinstance(node, ast.Constant) else None
        full = self.project.short.get(text) if isinstance(text, str) and source.module.startswith(("tests.", "scripts.")) else None
        if isinstance(text, str) and full in self.modules:
            self._put(source, node.lineno, node.col_offset + 1, text, self.modules[full].rpartition(".")[2])

    def _edit_type(self, source: Source, scope: Scope, node: ast.expr) -> None:
        """Names in a type that is written as a string, in a call of cast or TypeVar."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.lineno != node.end_lineno:
            return
        begin = source.offset(node.lineno, node.col_offset)
        for found in re.finditer(r"[A-Za-z_]\w*", node.value):
            home = scope.find(found.group())
            new = self.renames[source.module].get((id(home), found.group())) if home is not None else None
            if new:
                start = begin + 1 + len(node.value[: found.start()].encode())
                self.edits[source.path][start, start + len(found.group().encode())] = new

    def _of_methods(self, name: str) -> dict[str, str] | None:
        found = [known for (_, label), known in self.parameters.items() if "." in label and label.rpartition(".")[2] == name]
        if not found or any(each != found[0] for each in found):
            return None
        owners = sum(name in members(body) for each in self.project.sources.values() for body in each.classes.values())
        return found[0] if owners == len(found) else None

    def _edit_imports(self, source: Source) -> None:
        for node, _, base in source.imports:
            module = self.project.module(base, source)
            for alias in node.names:
                if alias.asname:
                    new = self._renamed(source, (base, alias.name))
                    if new:
                        self._put(source, alias.lineno, alias.col_offset, alias.name, new)
            if module in self.modules and (node.level or base != module):  # full paths follow with the texts
                old, new = module.rpartition(".")[2], self.modules[module].rpartition(".")[2]
                start = source.offset(node.lineno, node.col_offset)
                found = re.compile(rb"from\s+[\w.]*?\b(" + old.encode() + rb")\s+import").match(source.content, start)
                if found:
                    self.edits[source.path][found.span(1)] = new

    def _edit_methods(self, source: Source) -> None:
        if not self.methods:
            return
        for node, scope, joined in source.attributes:
            if node.attr in self.methods:
                base = self.project.of_expression(source, scope, node.value)
                if base is not None and base[1] is None:
                    continue
                self._put(
                    source,
                    node.end_lineno,
                    node.end_col_offset - len(node.attr.encode()),
                    node.attr,
                    self.methods[node.attr],
                    joined,
                    dot=True,
                )
        for use in source.uses:
            if isinstance(use.node, (ast.FunctionDef, ast.AsyncFunctionDef)) and use.scope.kind == "class" and use.name in self.methods:
                self._put(source, use.line, use.column, use.name, self.methods[use.name])

    def _edit_strings(self, source: Source) -> None:
        """`name` in docstrings and comments, where the module binds it; parameters as docstrings list them."""
        wanted = {old: new for (scope, old), new in self.renames[source.module].items() if scope == id(source.top)} | self.methods
        if not wanted:
            return
        for found in re.finditer(rb"(?<!`)`(\w+)(?=[`(\[.])", source.content):
            old = found.group(1).decode()
            if old in wanted and not any(start < found.end(1) and end > found.start(1) for start, end in self.edits[source.path]):
                self.edits[source.path][found.span(1)] = wanted[old]

    def docstrings(self) -> None:
        """Parameters in the docstrings of their functions."""
        for (module, label), known in self.parameters.items():
            source = self.project.sources[module]
            node, _ = source.functions[label]
            first = node.body[0] if node.body else None
            if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)):
                continue
            begin, stop = source.offset(first.lineno, first.col_offset), source.offset(first.end_lineno, first.end_col_offset)
            for old, new in known.items():
                for found in re.finditer(rb"(?:`|\n\s+|\.  |\()(" + old.encode() + rb")(?=`|  |, \w+  | \()", source.content[begin:stop]):
                    self.edits[source.path][begin + found.start(1), begin + found.end(1)] = new

    # Texts

    def texts(self, content: str, path: str) -> str:
        """Dotted paths and paths of files in any text."""
        content = DOTTED.sub(self._dotted, content)
        content = QUOTED.sub(lambda found: self._partial(found.group(0), path), content)
        return FILES.sub(lambda found: self._file(found.group(0), path), content)

    def _dotted(self, found: re.Match[str]) -> str:
        parts = found.group(1).split(".")
        for cut in range(len(parts), 0, -1):
            module = ".".join(parts[:cut])
            if module in self.project.sources or module in self.project.packages:
                rest = parts[cut:]
                target = self.project.meaning(next(iter(self.project.sources.values())), (module, rest[0])) if rest else None
                if rest and target and target[1] and (target[0], target[1]) in self.names:
                    rest[0] = self.names[target[0], target[1]]
                rest[1:] = [self.methods.get(each, each) for each in rest[1:]]
                return ".".join([self.modules.get(module, module), *rest]) + self._of_colon(module, found.group(2))
        return found.group(0)

    def _of_colon(self, module: str, name: str | None) -> str:
        """The name behind the colon of `module:name`."""
        return f":{self.names.get((module, name), name)}" if name else ""

    def _partial(self, token: str, path: str) -> str:
        """The end of a dotted path between backticks, where one module alone can be meant."""
        parts = token.split(".")
        for cut in range(len(parts), 0, -1):
            if cut == len(parts) == 1:
                continue
            tail = "." + ".".join(parts[:cut])
            known = [module for module in self.project.sources if module.startswith("herdcli.") and f".{module}".endswith(tail)]
            near = [
                module for module in known if path.removesuffix(".py").rpartition("/")[0].replace("/", ".") == module.rpartition(".")[0]
            ]
            known = near if len(near) == 1 else known
            rest = parts[cut:]
            if len(known) > 1 and rest:
                known = [module for module in known if rest[0] in self.project.sources[module].top.names]
            if len(known) != 1:
                continue
            (module,) = known
            if rest and rest[0] not in self.project.sources[module].top.names:
                continue
            new = self.modules.get(module, module).split(".")[-cut:]
            if rest:
                rest[0] = self.names.get((module, rest[0]), rest[0])
            return ".".join([*new, *rest])
        return token

    def _file(self, token: str, path: str) -> str:
        name = token.removesuffix(".py")
        if not hasattr(self, "_tails"):
            self._tails: dict[str, set[str]] = defaultdict(set)
            for module, source in self.project.sources.items():
                parts = source.path.removesuffix(".py").split("/")
                for cut in range(len(parts)):
                    self._tails["/".join(parts[cut:])].add(module)
        known = self._tails.get(name, set())
        if len(known) > 1:
            folder = path.rpartition("/")[0]
            near = {module for module in known if self.project.sources[module].path == f"{folder}/{name}.py"}
            exact = {module for module in known if self.project.sources[module].path.removesuffix(".py") in (name, f"herdcli/{name}")}
            prefix = {"docs/coverage.toml": "tests.", "results.mk": "scripts."}.get(path, "-")
            tests = {module for module in known if module.startswith(prefix)}
            known = exact if len(exact) == 1 else near if len(near) == 1 else tests if len(tests) == 1 else known
        if len(known) != 1:
            return token
        (module,) = known
        if module not in self.modules or ("/" not in name and not token.endswith(".py")):
            return token
        new = self.modules[module].rpartition(".")[2]
        head, slash, _ = name.rpartition("/")
        return f"{head}{slash}{new}" + (".py" if token.endswith(".py") else "")

    def result(self, path: str) -> bytes:
        """A file with its edits."""
        content = (ROOT / path).read_bytes()
        for (start, end), new in sorted(self.edits[path].items(), reverse=True):
            content = content[:start] + new.encode() + content[end:]
        text = content.decode("utf-8")
        if not path.startswith(UNTOUCHED):
            text = self.texts(text, path)
        for row in self.rows:
            if row.kind == "text" and row.old == path:
                text = text.replace(row.new, row.comment)
        return text.encode()

    def mutants(self, path: str = "tests/mutants.toml") -> None:
        """Code in the list of mutants: identifiers that were renamed in the file of each entry."""
        file = ROOT / path
        if not file.is_file():
            return
        blocks = re.split(r"(?m)^(?=\[\[)", file.read_text(encoding="utf-8"))
        for index, block in enumerate(blocks):
            named = re.search(r'(?m)^path = "([^"]+)"', block)
            source = self.project.sources.get(module_of(named.group(1))) if named else None
            if source is None:
                continue
            swaps = {
                (source.content[start - 1 : start] == b".", source.content[start:end].decode()): new
                for (start, end), new in self.edits[source.path].items()
                if new.isidentifier()
            }
            if swaps:
                lines = [swapped(line, swaps) if re.match("(old|new|text|function) = ", line) else line for line in block.split("\n")]
                blocks[index] = "\n".join(lines)
        file.write_text("".join(blocks), encoding="utf-8")


def main() -> None:
    """Apply a map."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("map", nargs="?", type=Path, default=ROOT / "docs" / "names.tsv")
    parser.add_argument("--check", action="store_true", help="report what would be done and change nothing")
    parser.add_argument("--only", default="", help="apply only lines whose old path begins so")
    arguments = parser.parse_args()
    rows = [
        row for row in rows_of(arguments.map) if row.old.startswith(arguments.only) or row.old.startswith(arguments.only.replace(".", "/"))
    ]
    project = Project()
    renaming = Renaming(project, rows)
    renaming.take()
    renaming.plan()
    renaming.edit()
    renaming.docstrings()
    for line in renaming.reports:
        print(line)
    done = f"{len(renaming.modules)} modules, {len(renaming.names)} names, {len(renaming.methods)} methods"
    print(f"{done}, {sum(map(len, renaming.parameters.values()))} parameters; {sum(map(len, renaming.edits.values()))} edits")
    if arguments.check:
        return
    changed = {}
    for path in project.files:
        if (path.endswith(TEXTS) and not path.startswith(UNTOUCHED)) or renaming.edits.get(path):
            content = renaming.result(path)
            if content != (ROOT / path).read_bytes():
                changed[path] = content
    renaming.mutants()
    for path, content in changed.items():
        if path == "tests/mutants.toml":
            content = renaming.texts((ROOT / path).read_text(encoding="utf-8"), path).encode()
        (ROOT / path).write_bytes(content)
    moves = {project.sources[old].path: new.replace(".", "/") + ".py" for old, new in renaming.modules.items()}
    for old in moves:  # by way of a third name, since names may change places
        subprocess.run(["git", "mv", old, f"{old}.moving"], cwd=ROOT, check=True)
    for old, new in moves.items():
        subprocess.run(["git", "mv", f"{old}.moving", new], cwd=ROOT, check=True)
    tidy()
    print(f"{len(changed)} files changed, {len(moves)} moved")


if __name__ == "__main__":
    sys.exit(main())
