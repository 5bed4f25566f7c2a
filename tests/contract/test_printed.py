"""Everything that patchgen prints goes through one door, `patchgen/cli/terminal.py`, which escapes it."""

import ast

import pytest

from tests.toytree import REPOSITORY

PACKAGE = REPOSITORY / "patchgen"
DOOR = "cli/terminal.py"
# These print otherwise: mostly child processes to their parent.
OTHERS = {
    "project/places.py": "what it prints is `shown`; a run may ask for this folder long before a command does",
    "cli/__init__.py": "sets up the streams, and says that it was interrupted before anything could be imported",
    "loading.py": "where a variant is, said once, as `shown` has it",
    "unpatching/child.py": "what the user's program itself printed",
    "unpatching/equal.py": "answers of a child",
    "rescuing/observe.py": "the error of a child, which its parent reads",
}
READS = {"isatty", "fileno", "buffer.read"}


def prints(text):
    """The lines that print, or that take a stream which does."""
    tree = ast.parse(text)
    asked = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in READS
        and ast.unparse(node.value).startswith("sys.std")
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("print" | "pprint")):
                yield node.lineno
            case ast.Attribute(value=ast.Name("click"), attr="echo" | "secho" | "echo_via_pager"):
                yield node.lineno
            case ast.Attribute(
                value=ast.Name("sys"), attr="stdout" | "stderr" | "__stdout__" | "__stderr__"
            ):
                if node not in asked:
                    yield node.lineno
            case ast.Attribute(value=ast.Name("traceback"), attr="print_exc" | "print_exception"):
                yield node.lineno


def test_it_finds_each_way():
    ways = (
        "print(1)",
        "click.echo(1)",
        "sys.stdout.write('')",
        "f(file=sys.stderr)",
        "traceback.print_exc()",
    )
    assert all(list(prints(way)) for way in ways)
    assert not list(prints("sys.stderr.isatty()"))


def test_one_door():
    files = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = {name: list(prints(path.read_text(encoding="utf-8"))) for name, path in files.items()}
    found = {name: lines for name, lines in found.items() if lines and name != DOOR}
    assert found.keys() == OTHERS.keys(), {
        name: found.get(name) for name in found.keys() ^ OTHERS.keys()
    }


@pytest.mark.parametrize("environment", [{}, {"GITHUB_ACTIONS": "true"}], ids=["editor", "runner"])
def test_code_is_exact_unless_a_log_reads_it(environment, monkeypatch, capsys):
    from patchgen.cli.terminal import write_code

    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code = 'x = """\x0c\n  ::add-mask::a\n"""\n'
    write_code(code)
    escaped = 'x = """\\x0c\n  \\x3a:add-mask::a\n"""\n'
    assert capsys.readouterr().out == (escaped if environment else code)
