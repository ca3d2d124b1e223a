"""The shape of app/: what no linter of ours looks at."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Callable, Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MODULES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted((ROOT / "app").rglob("*.py"))
}
#: Taken by name these would keep the unpatched function in a gevent worker.
BY_MODULE = {"threading", "select", "subprocess", "socket", "time"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Complaints = Iterator[str]


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def parameters(function: Function) -> list[ast.arg]:
    """All but `self` and `cls`, which need no annotation."""
    named = function.args
    listed = [*named.posonlyargs, *named.args, *named.kwonlyargs, named.vararg, named.kwarg]
    return [each for each in listed if each and each.arg not in ("self", "cls")]


def find_long_modules(name: str, source: str) -> Complaints:
    count = len(source.splitlines())
    if count > 300:
        yield f"{name} has {count} lines"


def find_long_functions(name: str, source: str) -> Complaints:
    for function in functions(ast.parse(source)):
        count = (function.end_lineno or 0) - function.lineno + 1
        if count > 40:
            yield f"{name}:{function.lineno} {function.name} has {count} lines"


def find_many_parameters(name: str, source: str) -> Complaints:
    for function in functions(ast.parse(source)):
        if len(parameters(function)) > 5:
            yield f"{name}:{function.lineno} {function.name} has {len(parameters(function))} parameters"


def find_unannotated(name: str, source: str) -> Complaints:
    for function in functions(ast.parse(source)):
        bare = [each.arg for each in parameters(function) if each.annotation is None]
        if bare or function.returns is None:
            yield f"{name}:{function.lineno} {function.name} lacks annotations: {bare or 'return'}"


def find_imports(name: str, source: str) -> Complaints:
    for node in ast.walk(ast.parse(source)):
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        origin = node.module if isinstance(node, ast.ImportFrom) and node.module else ""
        if "gevent" in {each.partition(".")[0] for each in [*modules, origin]}:
            yield f"{name}:{node.lineno} imports gevent"
        if origin in BY_MODULE:
            yield f"{name}:{node.lineno} imports from {origin}"


def find_environment_readers(name: str, source: str) -> Complaints:
    for node in ast.walk(ast.parse(source)):
        used = isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
        of_os = used and isinstance(node.value, ast.Name) and node.value.id == "os"
        taken = isinstance(node, ast.ImportFrom) and node.module == "os"
        if (of_os or taken) and name != "app/settings.py":
            yield f"{name}:{node.lineno} reads the environment"


Rule = Callable[[str, str], Complaints]
RULES: list[tuple[Rule, str]] = [
    (find_long_modules, "x = 1\n" * 301),
    (find_long_functions, "def f() -> None:\n" + "    x = 1\n" * 40),
    (find_many_parameters, "def f(a: int, b: int, c: int, /, d: int, *, e: int, f: int) -> None: ..."),
    (find_unannotated, "class A:\n    def f(self, a) -> None: ..."),
    (find_unannotated, "def f(a: int): ..."),
    (find_unannotated, "def f(*args, **kwargs: int) -> None: ..."),
    (find_imports, "def f() -> None:\n    import gevent.monkey"),
    (find_imports, "from gevent import monkey"),
    (find_imports, "from time import monotonic"),
    (find_environment_readers, "import os\nos.environ['A']"),
    (find_environment_readers, "import os\nos.getenv('A')"),
    (find_environment_readers, "from os import environ"),
]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.__name__) for rule in dict(RULES)])
def test_app_keeps_the_rules(rule: Rule) -> None:
    assert MODULES
    assert [complaint for name, source in MODULES.items() for complaint in rule(name, source)] == []


@pytest.mark.parametrize(("rule", "broken"), [pytest.param(*row, id=row[0].__name__) for row in RULES])
def test_a_rule_sees_what_breaks_it(rule: Rule, broken: str) -> None:
    assert len(list(rule("app/broken.py", broken))) == 1


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        pytest.param(find_long_modules, "x = 1\n" * 300, id="300-lines"),
        pytest.param(find_long_functions, "def f() -> None:\n" + "    x = 1\n" * 39, id="40-lines"),
        pytest.param(
            find_many_parameters,
            "class A:\n    def f(self, a: int, b: int, c: int, *, d: int, e: int) -> None: ...",
            id="five-parameters-and-self",
        ),
        pytest.param(find_imports, "import time, select\nfrom app.lib import events", id="whole-modules"),
    ],
)
def test_a_rule_lets_pass_what_keeps_it(rule: Rule, kept: str) -> None:
    assert list(rule("app/kept.py", kept)) == []
