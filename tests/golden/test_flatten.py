"""One file a case: what a modular file and its parents give, as text, or the message.

`# --- parent PATH` and `# --- modular PATH` are files; `# --- flat NAME` is an output, `# --- flat
NAME: A, B` only the definitions A and B of it, and `# --- error` the messages.  `# search:
installed` lets parents be found where Python finds them; `# python: 3.12` is the oldest Python that
reads the case.  PATCHGEN_REFRESH=1 writes the present outputs; git then shows what has changed.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import sys
from pathlib import Path

import black
import pytest

from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.oracle import sections

CASES = sorted(Path(__file__).with_name("flatten").glob("*.py"))
REFRESH = bool(os.environ.get("PATCHGEN_REFRESH"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, tmp_path: Path) -> None:
    (entry,) = sections.read(path)
    needs = tuple(map(int, entry.options.get("python", "3.11").split(".")))
    if sys.version_info < needs:
        pytest.skip(f"syntax of Python {entry.options['python']}")
    result = _flatten(entry, tmp_path)
    texts = {file.name: file.text for file in result.files}
    for text in texts.values():
        _judge_by_black(text)
    found = _results(entry, result, texts)
    if REFRESH:
        _write(path, entry, found)
    assert {title: text for title, text in entry.texts.items() if _is_result(title)} == found


def _is_result(title: str) -> bool:
    return title.startswith(("flat ", "error"))


def _flatten(entry: sections.Entry, folder: Path) -> Flattened:
    modular = None
    for title, text in entry.texts.items():
        kind, _, name = title.partition(" ")
        if kind not in ("parent", "modular"):
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
        modular = path if kind == "modular" else modular
    assert modular is not None
    search = sys.path if entry.options.get("search") == "installed" else []
    return flatten(modular, make_environment(folder, search=search), Settings())


def _results(entry: sections.Entry, result: Flattened, texts: dict[str, str]) -> dict[str, str]:
    """The sections that the case should have: its own, filled again, or one for each output."""
    if result.problems:
        return {"error": "".join(f"{problem}\n" for problem in result.problems)}
    wanted = [title for title in entry.texts if title.startswith("flat ")] or [
        f"flat {name}" for name in texts
    ]
    found = {}
    for title in wanted:
        name, _, names = title.removeprefix("flat ").partition(": ")
        found[title] = (
            _definitions(texts.get(name, ""), names.split(", ")) if names else texts.get(name, "")
        )
    missing = set(texts) - {title.removeprefix("flat ").partition(":")[0] for title in wanted}
    return found | {f"flat {name}": texts[name] for name in sorted(missing)}


def _definitions(text: str, names: list[str]) -> str:
    """The statements that bind `names`, below a comment with the names of all definitions."""
    nodes = ast.parse(text).body
    lines = text.split("\n")
    listed = [node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    parts = [f"# defines {', '.join(listed)}"]
    for node in nodes:
        bound = {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        if (
            getattr(node, "name", None) in names
            or isinstance(node, ast.Assign)
            and bound & set(names)
        ):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(parts) + "\n"


def _judge_by_black(text: str) -> None:
    mode = black.Mode(line_length=119)
    try:
        black.assert_equivalent(text, black.format_str(text, mode=mode))
    except black.NothingChanged:
        return
    black.assert_stable(text, black.format_str(text, mode=mode), mode)


def _write(path: Path, entry: sections.Entry, found: dict[str, str]) -> None:
    parts = [f"# {key}: {value}\n" for key, value in entry.options.items()]
    texts = {title: text for title, text in entry.texts.items() if not _is_result(title)} | found
    parts += [f"# --- {title}\n{text}" for title, text in texts.items()]
    path.write_text("".join(parts), encoding="utf-8")


IN_PLACE = [
    "module.weight.data.normal_()",
    "module.weight = nn.Parameter(torch.zeros(2))",
    "nn.init.zeros_(module.weight[0])",
    "normal_(module.weight)",
    "fill(module)",
    "for part in module.weight.chunk(2): nn.init.zeros_(part)",
    "[nn.init.zeros_(part) for part in module.weight.chunk(2)]",
    "part = module.weight.T; part[0] = 0.0",
    "module.weight *= 2",
]


@pytest.mark.parametrize("line", IN_PLACE)
def test_initialisation_that_writes_over_loaded_weights(line: str, tmp_path: Path) -> None:
    entry = sections.read(Path(__file__).with_name("flatten") / "error_initialisation_in_place_store.py")[0]
    modular = entry.texts["modular modular_gpt2_x.py"].replace("module.weight[0] = 0.0", line)
    changed = dataclasses.replace(entry, texts={"modular modular_gpt2_x.py": modular})
    assert [problem.code for problem in _flatten(changed, tmp_path).problems] == ["PG414"]


# Tensors that the method makes, and not those of the module.
OF_ITS_OWN = [
    "local = torch.ones(3); local[-1] = module.eps; nn.init.zeros_(local)",
    "local: object = torch.ones(3); local[0] = 1.0; local.fill_(2.0)",
    "local = torch.ones(3); local.data *= 2; local.data = local",
    "a, b = torch.chunk(torch.ones(4), 2); a.zero_(); b[0] = 1.0",
    "(local := module.weight.clone()).fill_(1.0); local[0] = 1.0",
]


@pytest.mark.parametrize("line", OF_ITS_OWN)
def test_initialisation_with_a_tensor_of_its_own(line: str, tmp_path: Path) -> None:
    entry = sections.read(Path(__file__).with_name("flatten") / "error_initialisation_in_place_store.py")[0]
    modular = entry.texts["modular modular_gpt2_x.py"].replace("module.weight[0] = 0.0", line)
    changed = dataclasses.replace(entry, texts={"modular modular_gpt2_x.py": modular})
    assert not _flatten(changed, tmp_path).problems
