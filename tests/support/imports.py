"""The imports between files of ``ompd``, and the graph of its folders in ``docs/dev/architecture.md``.

``python -m tests.support.imports`` (``make graph``) draws the graph anew.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.support import clean_environment

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ompd"
PAGE = ROOT / "docs" / "dev" / "architecture.md"
_BEGIN, _END = "<!-- drawn by `make graph` -->\n", "<!-- end of the drawing -->\n"

Graph = Mapping[str, frozenset[str]]
"""By node: the nodes that it needs."""


@cache
def modules(package: Path) -> Mapping[str, ast.Module]:
    """Return the files of *package* by dotted name."""
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in sorted(package.rglob("*.py"))
    }


def statements(tree: ast.AST, *, at_run_time: bool = False) -> Iterator[ast.AST]:
    """Yield the statements of *tree*, with those in functions and classes.

    :param at_run_time: leave the blocks under ``if TYPE_CHECKING`` out
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if at_run_time and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        for parts in ("body", "orelse", "handlers", "finalbody", "cases"):
            waiting += getattr(node, parts, ())


@cache
def imports(tree: ast.AST, *, at_run_time: bool = False) -> frozenset[str]:
    """Return the names that *tree* imports.

    :param at_run_time: leave the blocks under ``if TYPE_CHECKING`` out
    """
    names: set[str] = set()
    for node in statements(tree, at_run_time=at_run_time):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


@cache
def files() -> Graph:
    """Return the graph of imports between the package's files. ``from a.b import c`` imports the file ``a/b/c.py`` if
    it exists, otherwise ``a/b``.
    """
    known = modules(PACKAGE)
    return {name: frozenset(_files_of(tree, known) - {name}) for name, tree in known.items()}


def _files_of(tree: ast.AST, known: Mapping[str, ast.Module]) -> set[str]:
    needed = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            needed |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            needed |= {name if name in known else node.module for name in names}
    return needed & known.keys()


def circles(graph: Graph) -> list[frozenset[str]]:
    """Return the strongly connected components with more than one node."""
    reached = {node: _reached(graph, node) for node in graph}
    found = {frozenset((node, *(other for other in reached[node] if node in reached[other]))) for node in graph}
    return sorted((circle for circle in found if len(circle) > 1), key=sorted)


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def folders(depth: int, under: str = "ompd") -> dict[str, frozenset[str]]:
    """Return the import graph of the folders and files *depth* levels below the package and below *under*."""

    def room(name: str) -> str:
        return ".".join(name.split(".")[: depth + 1])

    inside = [name for name in files() if name.startswith(f"{under}.")]
    graph: dict[str, set[str]] = {room(name): set() for name in inside}
    for name in inside:
        graph[room(name)] |= {room(other) for other in files()[name] if room(other) in graph} - {room(name)}
    return {name: frozenset(needed) for name, needed in graph.items()}


def reduced(graph: Graph) -> dict[str, frozenset[str]]:
    """Return *graph* without arrows that a longer path implies. Arrows within a circle stay."""
    ring = {node: circle for circle in circles(graph) for node in circle}
    return {
        node: frozenset(
            other
            for other in needed
            if other in ring.get(node, ())
            or not any(
                other in _reached(graph, between)
                for between in needed - {other} - ring.get(other, frozenset())
                if between not in ring.get(node, ())
            )
        )
        for node, needed in graph.items()
    }


def draw() -> str:
    """Return the graph of the package's folders in the page's format."""
    return f"```mermaid\ngraph TD\n{_lines(reduced(folders(1)))}```\n"


def _lines(graph: Graph) -> str:
    names = {node: node.rpartition(".")[2] for node in graph}
    alone = graph.keys() - {node for node, needed in graph.items() for node in (*needed, *([node] if needed else ()))}
    arrows = [f"  {names[node]} --> {names[other]}\n" for node in sorted(graph) for other in sorted(graph[node])]
    return "".join([*arrows, *(f"  {names[node]}\n" for node in sorted(alone))])


def page(text: str) -> str:
    """Return the page's *text* with the current graph."""
    before, _, rest = text.partition(_BEGIN)
    _, _, behind = rest.partition(_END)
    return f"{before}{_BEGIN}\n{draw()}\n{_END}{behind}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))


def loaded_after(code: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        env={name: text for name, text in clean_environment().items() if name != "OMPD_PLUGINS"},
    )
    return set(run.stderr.split())
