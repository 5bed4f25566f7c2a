"""Overrides whose parents change: named with upstream's diff, until somebody accepts that they were looked at.

A case is a parent, the same after an upgrade, a modular file, and the overrides that are named then.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen.cli import main
from patchgen.project.overrides import Parent, read_overrides, render_overrides
from tests.toytree import PYPROJECT, Tree

PARENT = """
import math

RATE = 1


def helper(x):
    return math.sqrt(x)


class Base:
    flag = False

    def inherited(self):
        return 1


class A(Base):
    sizes = [1]

    def f(self, x):
        # A comment.
        return helper(x)

    @property
    def p(self):
        return 1


class B:
    def g(self):
        return A().f(RATE)
"""
HEAD = "from toy import modeling_toy as toy\n\n\n"
A = "class A(toy.A):\n"
METHOD = A + "    def f(self, x):\n        return 2\n"
FILE = "patchgen.overrides.toml"
MODULAR = "modular/x/modular_x.py"

CASES: dict[str, tuple[str, tuple[str, str], list[str]]] = {
    "a method": (METHOD, ("return helper(x)", "return helper(x + 1)"), ["A.f"]),
    "an attribute": (A + "    sizes = [2]\n", ("sizes = [1]", "sizes = [3]"), ["A.sizes"]),
    "a method of the parent's parent": (
        A + "    def inherited(self):\n        return 2\n",
        ("def inherited(self):\n        return 1", "def inherited(self):\n        return 3"),
        ["A.inherited"],
    ),
    "an attribute that the parent has no more": (
        A + "    sizes = [2]\n",
        ("    sizes = [1]\n", ""),
        ["A.sizes"],
    ),
    "a function": (
        A + "    sizes = [2]\n\n\ndef helper(x):\n    return x\n",
        ("math.sqrt(x)", "math.sqrt(2 * x)"),
        ["helper"],
    ),
    "a constant": (METHOD + "\n\nRATE = 5\n", ("RATE = 1", "RATE = 3"), ["RATE"]),
    "a new model": (
        "class TinyA(toy.A):\n    def f(self, x):\n        return 2\n",
        ("return helper(x)", "return helper(x + 1)"),
        ["TinyA.f"],
    ),
    "noop: another method": (METHOD, ("return A().f(RATE)", "return A().f(3)"), []),
    "noop: a comment": (METHOD, ("# A comment.", "# Another one."), []),
    "noop: a docstring": (
        METHOD,
        ("        # A comment.", '        """New."""\n        # A comment.'),
        [],
    ),
    "noop: a method that asks its parent": (
        A + "    def f(self, x):\n        return 2 * super().f(x)\n",
        ("return helper(x)", "return helper(x + 1)"),
        [],
    ),
    "noop: an edit": (
        "from patchgen.edits import edit, new, old\n\n\n"
        + A
        + '    @edit("f")\n    def e(self, x):\n'
        + "        with old:\n            toy.helper(x)\n        with new:\n            3\n",
        ("# A comment.\n", "x = 2 * x\n"),
        [],
    ),
}

Check = Callable[..., list[str]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A project over one parent; it is the current folder."""
    tree = Tree(tmp_path / "proj")
    tree.write("pyproject.toml", PYPROJECT)
    tree.write("lib/toy/__init__.py", "")
    tree.write("lib/toy/modeling_toy.py", PARENT)
    tree.write(MODULAR, HEAD + METHOD)
    monkeypatch.chdir(tree.top)
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tree


@pytest.fixture
def stale(capsys: pytest.CaptureFixture[str]) -> Check:
    """The overrides that a command names as stale."""

    def run(*argv: str) -> list[str]:
        capsys.readouterr()
        code = main([*argv, "--output-format", "json"])
        data = json.loads(capsys.readouterr().out)
        codes = [problem["code"] for problem in data["problems"]]
        names = [override["override"] for override in data.get("overrides", [])]
        assert codes.count("PG510") == len(names)
        assert code == int(bool(codes))
        return names

    return run


def upgrade(tree: Tree, old: str = "return helper(x)", new: str = "return helper(x + 1)") -> None:
    tree.edit("lib/toy/modeling_toy.py", old, new)


@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "-"))
def test_what_is_named(case: str, tree: Tree, stale: Check) -> None:
    declaration, (old, new), expected = CASES[case]
    tree.write(MODULAR, HEAD + declaration)
    assert main(["convert", "-q"]) == 0
    assert main(["check", "-q"]) == 0
    upgrade(tree, old, new)
    assert stale("check") == expected
    # A plain convert writes the outputs, and leaves the record.
    assert stale("convert") == stale("check") == expected
    assert stale("convert", "--accept") == []
    assert main(["check", "-q"]) == 0


def test_the_finding(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    main(["convert", "-q"])
    upgrade(tree)
    main(["convert", "-q"])
    capsys.readouterr()
    assert main(["check"]) == 1
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"{MODULAR}:5:5: PG510 A.f overrides toy.modeling_toy.A.f, which has changed",
        "    hint: change the override if it has to follow, then run "
        f"`patchgen convert --accept {MODULAR}`",
        "        --- toy.modeling_toy.A.f",
        "        +++ toy.modeling_toy.A.f",
        "        @@ -1,3 +1,3 @@",
        "         def f(self, x):",
        "             # A comment.",
        "        -    return helper(x)",
        "        +    return helper(x + 1)",
    ]
    assert main(["check", "--output-format", "github"]) == 1
    (annotation,) = capsys.readouterr().out.splitlines()
    assert annotation.startswith(f"::error title=patchgen (PG510),file={MODULAR},line=5,col=5::")
    assert "%0A        +    return helper(x + 1)" in annotation


@pytest.mark.parametrize("options", [(), ("--no-cache",)])
def test_the_cache_sees_another_parent(options: tuple[str, ...], tree: Tree, stale: Check) -> None:
    main(["convert", "-q", *options])
    assert stale("check", *options) == []
    upgrade(tree)
    assert stale("check", *options) == stale("check", *options) == ["A.f"]
    upgrade(tree, "return helper(x + 1)", "return helper(x)")
    assert main(["convert", "-q", *options]) == 0


def test_accepting_names_variants(tree: Tree, stale: Check) -> None:
    tree.write("modular/y/modular_y.py", HEAD + METHOD)
    main(["convert", "-q"])
    upgrade(tree)
    assert stale("convert", "--accept", "y") == []
    assert stale("check") == ["A.f"]
    assert main(["convert", "--accept", "-q", MODULAR]) == 0
    assert stale("check") == []
    assert main(["convert", "--accept", "nothing"]) == 2


def test_names_of_people_may_change(tree: Tree, stale: Check) -> None:
    """A renamed class and a moved file keep what is known of the parent."""
    tree.write(MODULAR, HEAD + METHOD.replace("class A(", "class TinyA("))
    main(["convert", "-q"])
    upgrade(tree)
    tree.write(MODULAR, HEAD + METHOD.replace("class A(", "class SmallA("))
    assert stale("convert") == ["SmallA.f"]
    tree.write("modular/z/modular_z.py", tree.read(MODULAR))
    tree(MODULAR).unlink()
    stale("check", "--fix")
    assert stale("check") == ["SmallA.f"]
    assert MODULAR not in tree.read(FILE)


BROKEN = {
    "nothing else": ([], []),
    "the method": ([("return helper(x)", "return helper(x + 1)")], ["A.f"]),
    "the function and the method": (
        [("return helper(x)", "return 1"), ("math.sqrt(x)", "math.sqrt(2)")],
        ["A.f", "helper"],
    ),
    "the class is gone": ([("class A(Base)", "class NewA(Base)"), ("A().f", "NewA().f")], ["A.f"]),
    "noop: a comment": ([("# A comment.", "# Another one.")], []),
}


@pytest.mark.parametrize("case", BROKEN, ids=lambda name: name.replace(" ", "-"))
def test_what_does_not_convert_keeps_its_record(case: str, tree: Tree, stale: Check) -> None:
    """Upstream has no B any more; what else changed is named all the same."""
    changes, expected = BROKEN[case]
    other = "\n\nclass B(toy.B):\n    rate = 1\n\n\ndef helper(x):\n    return x\n"
    tree.write(MODULAR, HEAD + METHOD + other)
    assert main(["convert", "-q"]) == 0
    before = tree.read(FILE)
    upgrade(tree, "class B:", "class C:")
    for old, new in changes:
        upgrade(tree, old, new)
    assert stale("check") == stale("convert") == stale("convert", "--accept") == expected
    assert tree.read(FILE) == before


def test_a_missing_record_is_named(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    main(["convert", "-q"])
    tree(FILE).unlink()
    capsys.readouterr()
    assert main(["check", "-q"]) == 1
    assert capsys.readouterr().out.startswith(
        f"{FILE}: PG511 does not record what {MODULAR} overrides by now: A.f\n"
    )
    assert main(["convert", "-q"]) == main(["check", "-q"]) == 0


@pytest.mark.parametrize(
    "text",
    [
        "<<<<<<< HEAD\n",
        '["modular/x/modular_x.py"."A.f"]\nparent = "a"\n',
        '["modular/x/modular_x.py"."A.f"]\nparent = "a"\ntext = 3\n',
        "x = 1\n",
        '["a"."b"]\nparent = ""\ntext = ""\n["a"."b"]\n',
    ],
)
def test_a_broken_file_is_an_error_and_stays(
    text: str, tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["convert", "-q"])
    tree.write(FILE, text)
    before = tree.snapshot()
    for command in (["check"], ["convert"], ["convert", "--accept"]):
        capsys.readouterr()
        assert main(command) == 1
        out, err = capsys.readouterr()
        assert f"{FILE}: PG512 cannot be read" in out + err
    assert tree.snapshot() == before


def test_git_merges_branches_that_override(tmp_path: Path) -> None:
    """Both override the same long method in new variants, all in one place of the file."""
    text = "".join(f'    print("""{number}""")\n' for number in range(20))
    parent = Parent("toy.A.f", f"def f(self):\n{text}")

    def git(*words: str) -> None:
        options = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *options, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(*modulars: str) -> None:
        records = {modular: {"A.f": parent, "A.g": parent} for modular in modulars}
        (tmp_path / FILE).write_text(render_overrides(records))
        git("add", "--all")
        git("commit", "-qm", "x")

    git("init", "-q", "-b", "main")
    (tmp_path / ".gitattributes").write_text(f"{FILE} merge=union\n")
    commit("a.py", "z.py")
    git("checkout", "-qb", "theirs")
    commit("a.py", "z.py", "c.py", "e.py")
    git("checkout", "-q", "main")
    commit("a.py", "z.py", "b.py", "d.py")
    git("merge", "-q", "theirs", "-m", "both")
    names = ("a.py", "b.py", "c.py", "d.py", "e.py", "z.py")
    assert read_overrides(tmp_path) == {name: {"A.f": parent, "A.g": parent} for name in names}


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs its files")
def test_a_release_of_transformers(tree: Tree, stale: Check, tmp_path: Path) -> None:
    """A release in a folder: its diff is shown before anything is installed."""
    tree.write(
        MODULAR,
        "from transformers.models.llama import modeling_llama as llama\n\n\n"
        "class LlamaMLP(llama.LlamaMLP):\n"
        "    def forward(self, x):\n        return self.down_proj(self.up_proj(x))\n\n\n"
        "class LlamaPreTrainedModel(llama.LlamaPreTrainedModel):\n"
        "    _supports_sdpa = False\n",
    )
    main(["convert", "-q"])
    assert stale("check") == []
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    model = Path(spec.origin).parent / "models" / "llama"
    shutil.copytree(model, tmp_path / "next" / "transformers" / "models" / "llama")
    parent = tmp_path / "next/transformers/models/llama/modeling_llama.py"
    text = parent.read_text(encoding="utf-8")
    product = "self.act_fn(self.gate_proj(x)) * self.up_proj(x)"
    assert product in text and "_supports_sdpa = True" in text
    text = text.replace(product, "self.up_proj(x) * self.act_fn(self.gate_proj(x))")
    parent.write_text(text.replace("_supports_sdpa = True", "_supports_sdpa = None"))
    named = stale("check", "--package-root", str(tmp_path / "next"))
    assert named == ["LlamaMLP.forward", "LlamaPreTrainedModel._supports_sdpa"]
