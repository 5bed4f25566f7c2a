"""A variant that changes one docstring of a model is that model: no other statement changes.

But for models that the release would build, which the file builds of its own class.

The judge is the syntax tree of the installed file, imports made absolute.  Imports may stand in
another order; what transformers needs to know of a model outside its package may be added, and is
listed in `ADDED`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import black
import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment

MODELS = sorted(
    Path(sys.prefix).glob("lib/python*/site-packages/transformers/models/*/modeling_*.py")
)
SAMPLE = MODELS[::160]
DOCSTRING = "Changed, and nothing else."
ADDED = re.compile(r"register_checkpoint_conversion_mapping\(.*|def auto_docstring\(.*", re.DOTALL)
ADDED_METHOD = "is_custom_code"
# What the release would build of its own class, the file builds of its own.
GENERIC = re.compile(r"(@.*\n)*class \w+\(Generic\w+, ")
ASKED = re.compile(r"AutoModel\w*\.from_config\(")
BUILT = re.compile(r"\w+\._from_config\((config\.\w+)(?=[,)])")
CHOSEN = re.compile(r"(MODEL\((config\.\w+)\)) if \2\.model_type == '\w+' else MODEL\(\2\)")
ADDED_IMPORTS = ("transformers.conversion_mapping.", "contextlib ")
ASKING_IMPORT = ".AutoModel"


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_identity(path: Path, tmp_path: Path) -> None:
    _check(path, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in MODELS if path not in SAMPLE], ids=lambda path: path.stem
)
def test_identity_of_the_others(path: Path, tmp_path: Path) -> None:
    _check(path, tmp_path)


def test_the_corpus_is_there() -> None:
    assert len(MODELS) > 500 and len(SAMPLE) >= 3


def _check(path: Path, folder: Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = f"transformers.models.{path.parent.name}.{path.stem}"
    classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    if not classes:
        pytest.skip("has no class")
    name = classes[len(text) % len(classes)]
    modular = folder / f"modular_{path.stem.removeprefix('modeling_')}_same.py"
    modular.write_text(
        f"from {module} import {name} as Upstream\n\n\n"
        f'class {name}(Upstream):\n    """{DOCSTRING}"""\n'
    )
    result = flatten(modular, make_environment(folder), Settings())
    assert not result.problems, "\n".join(map(str, result.problems))
    (file,) = [file for file in result.files if file.kind == "modeling"]
    assert DOCSTRING in file.text
    statements, imports = _normal(text, module, name)
    found_statements, found_imports = _normal(file.text, module, name)
    found_statements = [s for s in found_statements if s in statements or not ADDED.fullmatch(s)]
    found_imports = {i for i in found_imports if i in imports or not i.startswith(ADDED_IMPORTS)}
    assert [s for s in found_statements if s not in statements] == []
    assert [s for s in statements if s not in found_statements] == []
    assert found_statements == statements
    assert found_imports == imports
    black.assert_stable(
        file.text,
        black.format_str(file.text, mode=black.Mode(line_length=119)),
        black.Mode(line_length=119),
    )


def _normal(text: str, module: str, name: str) -> tuple[list[str], set[str]]:
    """The statements other than imports, as text, and the names that top-level imports bind."""
    tree = _Absolute(module).visit(ast.parse(text))
    statements = []
    imports = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(each for each in _bound(node) if ASKING_IMPORT not in each)
            continue
        if isinstance(node, ast.ClassDef):
            written = [ADDED_METHOD, *["__init__"] * bool(GENERIC.match(ast.unparse(node)))]
            kept = [each for each in node.body if getattr(each, "name", "") not in written]
            kept = [each for each in kept if ast.unparse(each) not in ("pass", "...")]
            node.body = kept or [ast.Pass()]
        if (
            isinstance(node, ast.ClassDef)
            and node.name == name
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
        if (
            isinstance(node, ast.ClassDef)
            and node.name == name
            and "".join(map(ast.unparse, node.body)) in ("", "...")
        ):
            node.body = [ast.Pass()]  # what stands for nothing may be left away beside a docstring
        text = ASKED.sub("MODEL(", ast.unparse(node))
        text = BUILT.sub(r"MODEL(\1", text)
        statements.append(CHOSEN.sub(r"\1", text))
    return statements, imports


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        yield f"{source}{alias.name} as {alias.asname or alias.name}"


class _Absolute(ast.NodeTransformer):
    """Relative imports made absolute, in functions too."""

    def __init__(self, module: str) -> None:
        self._package = module.split(".")[:-1]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level:
            base = self._package[: len(self._package) - node.level + 1]
            return ast.ImportFrom(
                ".".join([*base, *([node.module] if node.module else [])]), node.names, 0
            )
        return node
