"""Which part of patchgen may import which, as a table; and what is never imported at all.

A part is a package or a module directly below `patchgen`.  The core turns one modular file into text; all else finds
files, compares, records, writes and prints.
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toytree import REPOSITORY, environment

# What each part of the core imports beside itself.  `link` and `rewrite` do not know each other: `flatten` hands the
# text of a merged class from one to the other.
CORE = {
    "edits": set(),
    "errors": set(),
    "settings": set(),
    "ruff": {"errors"},
    "flat": {"errors"},
    "source": {"errors"},
    "plan": {"errors", "source"},
    "rewrite": {"errors", "source", "plan"},
    "link": {"errors", "source", "plan"},
    "emit": {"errors", "settings", "flat", "ruff", "source", "plan", "link"},
    "flatten": {"errors", "settings", "flat", "source", "plan", "rewrite", "link", "emit"},
    "upstream": {
        "errors",
        "flat",
        "source",
        "ruff",
    },  # the rules of transformers: the strict core knows nothing of them
    "parts": {"edits"},  # carried into generated files, which import nothing of patchgen
}
# What stands around the core.  `project` loads the core only when a profile is asked for; `cli` may import everything.
AROUND = {
    "project": {"errors", "flat", "settings", "source", "flatten", "upstream", "lint"},
    "disk": {"errors", "source", "project"},
    "batch": {"errors", "flat", "ruff", "source", "project", "disk"},
    "gate": {"errors", "flat", "settings", "source", "project", "disk", "batch"},
    "lab": {"errors", "flat", "source", "project", "gate", "parallel", "child", "use"},
    "use": {"errors", "flat", "project", "gate"},
    "lint": {"errors", "flat", "settings", "source", "plan", "upstream", "flatten", "rewrite"},
    "draw": set(),  # figures to pictures
    "precision": set(),  # names
    "rate": {"errors", "lab", "memory"},  # operations of a model, and of a device
    "child": set(),  # a process that is given work, and watched
}
# What writes modular files: reads models as text, and knows nothing of how modular files are flattened.
NEW = {
    "anatomy": {"errors", "source"},
    "declare": {"errors", "source", "anatomy"},
}
# What compares a fork with its parent, and writes the modular file that gives it again.
ADOPT = {
    "align": {"source"},
    "adopt": {"errors", "flat", "settings", "source", "align", "plan", "emit", "flatten"},
}
# What goes into which model: writes modular files, flattens them, and has them verified.
COVERAGE = {
    "coverage": {
        "errors",
        "child",
        "flat",
        "settings",
        "source",
        "anatomy",
        "declare",
        "flatten",
        "batch",
        "disk",
        "gate",
        "lab",
    },
}
# What it costs to train: builds models over shared weights, times them in processes of their own.
BENCH = {"bench": {"errors", "child", "disk", "lab", "parts", "precision", "rate", "use", "draw"}}
# The training loop: transformers' own, over models and text.
TRAIN = {"train": {"errors", "disk", "draw", "lab", "parallel", "precision", "rate", "use"}}
# What a training step holds in memory: runs models on shapes.
MEMORY = {"memory": {"errors", "draw", "lab", "parallel", "precision", "use"}}
# Several processes: engines, and the plans by which they split a model.
PARALLEL = {"parallel": {"errors", "flat", "use"}}
TABLE = CORE | AROUND | NEW | ADOPT | COVERAGE | BENCH | TRAIN | MEMORY | PARALLEL
# Packages from outside the standard library, and the parts that may import them.
OUTSIDE = {
    "accelerate": {"parallel"},
    "black": {"emit"},
    "click": {"cli"},
    "datasets": {"train"},
    "deepspeed": {"parallel"},
    "filelock": {"disk", "train"},
    "huggingface_hub": {"parts", "use"},
    "libcst": {"rewrite"},
    "numpy": {"parallel", "train"},
    "optimum": {"lab"},
    "optuna": {"train"},
    "peft": {"train"},
    "platformdirs": {"project"},
    "rich": {"cli"},
    "safetensors": {"train"},
    "tokenizers": {"train"},
    "torch": {"bench", "coverage", "lab", "memory", "parallel", "parts", "rate", "train", "use"},
    "transformers": {
        "bench",
        "coverage",
        "lab",
        "memory",
        "parallel",
        "parts",
        "rate",
        "train",
        "use",
    },
}

FILES = sorted((REPOSITORY / "patchgen").rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(path: Path, *, inside: bool = True) -> Iterator[tuple[int, str]]:
    """(line, module) of each import; those of functions only if `inside`, those for a type checker never."""
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: write it absolutely"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name if name in MODULES else node.module) for name in inner)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            stack.extend(ast.iter_child_nodes(node) if inside or not is_function else [])


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_each_part_imports_what_the_table_says(path):
    here = part_of(module_of(path))
    for line, name in imports(path):
        package, other = name.split(".")[0], part_of(name)
        place = f"{path.relative_to(REPOSITORY)}:{line} imports {name}"
        if package != "patchgen":
            assert package in sys.stdlib_module_names or here in OUTSIDE.get(package, ()), place
        elif here in TABLE:
            assert other in {"", here, *TABLE[here]}, place
        else:
            assert other != "cli" or here in ("cli", "__main__"), place


def test_every_part_of_the_table_is_there():
    assert TABLE.keys() <= {part_of(module) for module in MODULES}


def test_no_modules_import_each_other():
    """Nor by way of others, while they are being imported."""
    graph = {
        module_of(path): {name for _, name in imports(path, inside=False) if name in MODULES}
        for path in FILES
    }
    graph = {module: names - {module} for module, names in graph.items()}
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
    "read_regular",
    "read_regular_text",
}
WITHIN = [
    path for path in FILES if part_of(module_of(path)) in ("plan", "rewrite", "link", "flatten")
]
WITHIN += [path for path in FILES if path.parent.name == "emit" and path.name != "format.py"]


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
