"""Which part of patchgen may import which, as a table; and what is never imported at all.

A part is a package or a module directly below `patchgen`; those of the compiler and a few
others are looked at one by one.  Imports
inside functions count: a table without circles is one that can be read from the top down.
"""

from __future__ import annotations

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toytree import REPOSITORY, environment

# The way of one modular file to the text of its outputs.  `link` and `merge` do not know each other: `flatten` hands
# the text of a merged class from one to the other.
COMPILER = {
    "compiler.settings": set(),
    "compiler.flat": {"syntax.errors"},
    "compiler.language": {"syntax.errors", "facts", "syntax"},
    "compiler.plan": {"syntax.errors", "facts", "syntax", "compiler.language"},
    "compiler.merge.text": {"syntax"},
    "compiler.merge.members": {"syntax.errors", "syntax", "compiler.plan", "compiler.merge.text"},
    "compiler.edits": {
        "syntax.errors",
        "syntax",
        "compiler.plan",
        "compiler.merge.text",
        "compiler.merge.members",
    },
    "compiler.merge": {
        "syntax.errors",
        "facts",
        "syntax",
        "compiler.plan",
        "compiler.edits",
        "compiler.merge.text",
        "compiler.merge.members",
    },
    "compiler.link": {"syntax.errors", "facts", "syntax", "compiler.plan", "weights"},
    "formatting": {
        "syntax.errors",
        "disk",
        "syntax",
        "system",
        "children",
        "budget",
        "compiler.settings",
    },
    "compiler.emit": {
        "syntax.errors",
        "facts",
        "syntax",
        "formatting",
        "compiler.settings",
        "compiler.flat",
        "compiler.plan",
        "compiler.link",
        "weights",
    },
    "compiler.flatten": {
        "budget",
        "syntax.errors",
        "syntax",
        "formatting",
        "compiler.settings",
        "compiler.flat",
        "compiler.plan",
        "compiler.merge",
        "compiler.link",
        "compiler.emit",
    },
}
ALL_OF_THE_COMPILER = set(COMPILER)
TABLE = COMPILER | {
    "syntax.errors": set(),
    "system": set(),
    "budget": {"syntax.errors", "system"},
    "children": {"syntax.errors"},
    "disk": {"syntax.errors"},
    "facts": set(),
    "edits": set(),
    "project.markdown": set(),
    "parts": {"edits"},  # carried into generated files, which import nothing of patchgen
    "syntax": {"syntax.errors", "disk", "facts", "budget"},
    "weights": {"syntax.errors", "facts", "syntax"},
    "upstream": {
        "syntax.errors",
        "disk",
        "facts",
        "syntax",
        "system",
        "children",
        *ALL_OF_THE_COMPILER,
    },
    "lint": {"syntax.errors", "syntax", *ALL_OF_THE_COMPILER},
    # Loads a compiler only when a profile is asked for.
    "project": {
        "syntax.errors",
        "disk",
        "syntax",
        "system",
        "children",
        "upstream",
        "lint",
        *ALL_OF_THE_COMPILER,
    },
    "runtime": {"syntax.errors", "disk", "facts", "gallery", "project", "compiler.flat"},
    # What the check of one part is made of.  It knows of no variant and of no other part.
    "verifying.parts": {"syntax.errors", "disk", "facts", "runtime"},
    "author.anatomy": {"syntax.errors", "disk", "facts", "syntax", "compiler.edits"},
    # The parts: the writer of each, and its check.
    "author.declare": {
        "syntax.errors",
        "disk",
        "facts",
        "syntax",
        "author.anatomy",
        "runtime",
        "verifying.parts",
        *ALL_OF_THE_COMPILER,
    },
    "verifying": {
        "edits",
        "syntax.errors",
        "disk",
        "children",
        "facts",
        "project.markdown",
        "syntax",
        "project",
        "runtime",
        "system",
        "author.declare",
        "verifying.parts",
        "compiler.flat",
    },
    "author": {
        "syntax.errors",
        "disk",
        "children",
        "facts",
        "gallery",
        "project.markdown",
        "syntax",
        "project",
        "author.anatomy",
        "author.declare",
        "verifying",
        "verifying.parts",
        *ALL_OF_THE_COMPILER,
    },
    "rescuing": {"syntax.errors", "disk", "children", "syntax", "facts", "author"},
    "unpatching": {
        "syntax.errors",
        "disk",
        "children",
        "syntax",
        "project",
        "runtime",
        "verifying",
        "verifying.parts",
        "author",
        "compiler.settings",
    },
    "training": {
        "syntax.errors",
        "disk",
        "children",
        "facts",
        "project.markdown",
        "parts",
        "project",
        "runtime",
        "system",
        "verifying",
        "verifying.parts",
        "compiler.flat",
    },
    "pages": {"syntax.errors", "disk", "syntax", "project", *ALL_OF_THE_COMPILER},
    # `patchgen.load` writes what it loads.
    "loading": {
        "syntax.errors",
        "disk",
        "syntax",
        "project",
        "runtime",
        "author",
        "author.declare",
        "compiler.settings",
    },
    "cli": {
        "syntax.errors",
        "disk",
        "budget",
        "project.markdown",
        "syntax",
        "project",
        "runtime",
        "verifying",
        "author",
        "author.anatomy",
        "author.declare",
        "training",
        "rescuing",
        "unpatching",
        "pages",
        "gallery",
        *ALL_OF_THE_COMPILER,
    },
    "gallery": {"syntax.errors", "disk", "project"},
    # The commands as functions.
    "notebook": {
        "syntax.errors",
        "project",
        "author",
        "author.declare",
        "cli",
        "training",
        "verifying",
    },
    "__main__": {"cli"},
}
# Looked at apart from the package that they stand in: what they import is less, or who imports them is more.
ON_THEIR_OWN = {"syntax.errors", "project.markdown", "author.anatomy", "author.declare"}
# What the checks of parts are made of stands beside them.
FOR_PARTS = {
    "verifying.differences",
    "verifying.inputs",
    "verifying.models.build",
    "verifying.observe",
}
FOR_PARTS |= {"verifying.reached"}
# The statements of a class, which `edits` changes before `merge` goes on with them.
ON_THEIR_OWN |= {"compiler.merge.text", "compiler.merge.members", "verifying.parts"}
RUN_MODELS = {
    "author",
    "loading",
    "parts",
    "rescuing",
    "runtime",
    "training",
    "unpatching",
    "verifying",
}
# Packages from outside the standard library, and the parts that may import them.
OUTSIDE = {
    "accelerate": {"training"},
    "black": {"formatting"},
    "click": {"cli"},
    "datasets": {"training"},
    "matplotlib": {"training"},
    "deepspeed": {"training"},
    "filelock": {"project", "training"},
    "huggingface_hub": {"author", "parts", "runtime"},
    "liger_kernel": {"parts", "runtime"},
    "jinja2": {"pages"},
    "libcst": {"compiler.edits", "lint", "rescuing"},
    "lsprotocol": {"cli"},
    "markupsafe": {"pages"},
    "numpy": {"runtime", "training"},
    "optimum": {"runtime"},
    "optuna": {"training"},
    "peft": {"training"},
    "platformdirs": {"project"},
    "psutil": {"system"},
    "pygls": {"cli"},
    "pygments": {"pages"},
    "rich": {"cli"},
    "safetensors": {"rescuing", "training"},
    "torch": {*RUN_MODELS, "verifying.parts"},
    # The checks of parts, inside: what runs without it is tried below.
    "transformers": {*RUN_MODELS, "verifying.parts", "author.declare"},
    "triton": {"runtime"},
}

FILES = sorted((REPOSITORY / "patchgen").rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


def part_of(module: str) -> str:
    """ "verifying" for `patchgen.verifying.run`, "compiler.plan" for `patchgen.compiler.plan.model`."""
    names = module.split(".")[1:]
    if ".".join(names[:3]) in ON_THEIR_OWN:
        return ".".join(names[:3])
    inner = ".".join(names[:2])
    if FOR_PARTS & {inner, ".".join(names[:3])}:
        return "verifying.parts"
    apart = names[:1] == ["compiler"] or inner in ON_THEIR_OWN
    return inner if apart else ".".join(names[:1])


def imports(path: Path, *, types: bool = False) -> Iterator[tuple[int, str]]:
    """(line, module) of each import, those inside functions too; those for a type checker if `types`."""
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: write it absolutely"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name if name in MODULES else node.module) for name in inner)
        elif types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            stack.extend(ast.iter_child_nodes(node))


# What nearly all of them import, and what stands for the packages of the compiler.
EVERYWHERE = {"syntax.errors", "disk", "children", "system", "budget", "project.markdown"}
DESIGN = REPOSITORY / "docs/design.md"
HEADING = "| package | may import |\n|---|---|\n"


def as_markdown() -> str:
    """The table for docs/design.md, in its order, without what is imported everywhere."""
    rows = []
    for part, imported in TABLE.items():
        if part in EVERYWHERE:
            continue
        named = sorted(imported - EVERYWHERE)
        if imported >= ALL_OF_THE_COMPILER:
            named = sorted({"compiler", *imported} - EVERYWHERE - ALL_OF_THE_COMPILER)
        listed = ", ".join(map(shown, named))
        rows.append(f"| {shown(part)} | {listed or 'nothing'} |\n")
    return "".join(rows)


def shown(part: str) -> str:
    """`compiler/plan` for a package, `compiler/flat.py` for a module."""
    path = part.replace(".", "/")
    is_package = (REPOSITORY / "patchgen" / path).is_dir()
    return f"`{path}`" if is_package else f"`{path}.py`"


def test_the_page_shows_the_table():
    """PATCHGEN_REFRESH=1 writes it."""
    before, heading, after = DESIGN.read_text(encoding="utf-8").partition(HEADING)
    shown, _, rest = after.partition("\n\n")
    if os.environ.get("PATCHGEN_REFRESH") and f"{shown}\n" != as_markdown():
        text = f"{before}{heading}{as_markdown()}\n{rest}"
        DESIGN.write_text(text, encoding="utf-8")
    assert f"{shown}\n" == as_markdown(), "PATCHGEN_REFRESH=1 writes it"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_each_part_imports_what_the_table_says(path):
    here = part_of(module_of(path))
    for line, name in imports(path):
        package, other = name.split(".")[0], part_of(name)
        place = f"{path.relative_to(REPOSITORY)}:{line} imports {name}"
        if package != "patchgen":
            assert package in sys.stdlib_module_names or here in OUTSIDE.get(package, ()), place
        elif here:  # the top of the package hands on names of `runtime` when they are first read
            assert other in {"", here, *TABLE[here]}, place


def test_every_part_is_in_the_table():
    found = {part_of(module) for module in MODULES} - {"", "compiler"}
    assert found == set(TABLE)


def test_the_parts_can_be_read_from_the_top_down():
    graphlib.TopologicalSorter(TABLE).prepare()  # raises CycleError, which names the cycle


def test_no_modules_import_each_other():
    """Nor by way of others; imports inside functions and for a type checker count.

    The top of the package is left out: it hands on names of `runtime`, and others read its version.
    """
    graph = {
        module_of(path): {name for _, name in imports(path, types=True) if name in MODULES}
        for path in FILES
    }
    graph = {module: names - {module, "patchgen"} for module, names in graph.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


# How files and folders are looked at elsewhere.
LOOKS = {
    "open",
    "read_text",
    "read_bytes",
    "is_file",
    "is_dir",
    "is_symlink",
    "exists",
    "lexists",
    "iterdir",
    "listdir",
}
LOOKS |= {
    "scandir",
    "walk_up",
    "glob",
    "rglob",
    "stat",
    "lstat",
    "getcwd",
    "cwd",
    "text_of",
}
SEES_NO_FILES = set(COMPILER) - {
    "compiler.settings",
    "compiler.flat",
    "compiler.emit",
    "formatting",
}
# These run ruff and black.
FORMATS = {"format.py"}
WITHIN = [path for path in FILES if part_of(module_of(path)) in SEES_NO_FILES]
WITHIN += [path for path in FILES if path.parent.name == "emit" and path.name not in FORMATS]


@pytest.mark.parametrize("path", WITHIN, ids=module_of)
def test_the_core_sees_files_through_its_environment_alone(path):
    """`Environment.look` and `Environment.source` are remembered by the cache; nothing else would be."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            assert called not in LOOKS, (
                f"{path.relative_to(REPOSITORY)}:{node.lineno} calls {called}"
            )


SCRIPT = """
import sys
from patchgen.cli import main
absent = {"torch", "transformers", "modular", "generated"}
assert not absent & set(sys.modules), "after `import patchgen.cli`"
code = main(["convert", "--no-cache", "--jobs", "1"])
assert not absent & {name.split(".")[0] for name in sys.modules}, "after a conversion"
code |= main(["new", "roformer", "--with", "fast", "--no-proof"])
assert not absent & {name.split(".")[0] for name in sys.modules}, "after a draft"
sys.exit(code)
"""


def test_nothing_of_models_is_imported(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.patchgen]\nsources = ["modular"]\n', encoding="utf-8"
    )
    for path in sorted((REPOSITORY / "modular/llama").rglob("modular_*.py")):
        copy = tmp_path / path.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    argv = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("modeling_llama_loss.py"))
