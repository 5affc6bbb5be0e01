"""Budgets and habits of single files."""

import ast

import pytest

LINES = 500
FOLDERS = ("core", "plugins", "platforms")
MAKERS = {"dict", "list", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"}
CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
READ_ONLY = {"Mapping", "Sequence", "Collection", "Set"}
WRITERS = {
    *("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "sort"),
    *("pop", "popleft", "popitem", "remove", "discard", "clear", "reverse"),
}
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def test_no_file_is_longer_than_it_may_be(sources):
    every = sources(*FOLDERS, "runtime", "tests", "benchmarks", "scripts")
    lengths = {source.name: len(source.text.splitlines()) for source in every}
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


def mutable_globals(tree):
    """Containers that a module makes for others to write to, and ``global`` statements.

    A table is none where its annotation is a read-only one, which mypy enforces, or where it is
    private and its module never writes to it.
    """
    written = set(names_written_to(tree))
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = [ast.unparse(target) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and not is_read_only(node.annotation):
            names = [ast.unparse(node.target)]
        else:
            continue
        names = [name for name in names if not name.startswith("_") or name in written]
        if names and is_container(node.value):
            yield f"{node.lineno}: {', '.join(names)}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"{node.lineno}: global {', '.join(node.names)}"


def is_read_only(annotation):
    return isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in READ_ONLY


def names_written_to(tree):
    """Names whose items are set or deleted, or on which a method is called that writes."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                yield name
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if method in WRITERS:
                    yield name


def is_container(value):
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in MAKERS
    return isinstance(value, CONTAINERS)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("A = {}", 1),
        ("A: dict[str, int] = dict()", 1),
        ("a = b = [x for x in y]", 1),
        ("_A = {}\ndef f(): _A['b'] = 1", 1),
        ("_A = {}\ndef f(): del _A['b']", 1),
        ("_A = []\ndef f(): _A.append(1)", 1),
        ("A = collections.defaultdict(list)", 1),
        ("def f():\n    global A\n    A = 1", 1),
        ("A = MappingProxyType({'b': 1})", 0),
        ("A = (1, 2)", 0),
        ("A: Mapping[str, int] = {'b': 1}", 0),
        ("_A = {'b': 1}\ndef f(): return _A['b']", 0),
        ("A = frozenset({1, 2})", 0),
        ("__all__ = ['a']", 0),
        ("def f():\n    a = []", 0),
    ],
)
def test_the_search_finds_mutable_globals(code, count):
    assert len(list(mutable_globals(ast.parse(code)))) == count


def test_no_module_has_mutable_global_state(sources):
    found = [
        f"{source.name}:{line}"
        for source in sources("core", "plugins")
        for line in mutable_globals(source.tree)
    ]
    assert found == []


def undocumented(node, name):
    """Public modules, classes and functions without a docstring.

    ``__x__`` methods and empty files need none.
    """
    if node.body and ast.get_docstring(node) is None:
        yield name
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, DEFINITIONS) and not child.name.startswith("_"):
                yield from undocumented(child, f"{name}.{child.name}")


def test_the_search_finds_what_is_undocumented():
    code = '"""M."""\nclass A:\n    def b(self): pass\n    def _c(self): pass\ndef d():\n    "D."\n'
    assert list(undocumented(ast.parse(code), "m")) == ["m.A", "m.A.b"]


def test_everything_public_is_documented(sources):
    found = [
        name for source in sources(*FOLDERS) for name in undocumented(source.tree, source.module)
    ]
    assert found == []
