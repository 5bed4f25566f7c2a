"""Class attributes over the parent's, of every literal of every model: the value that Python gives.

Each list, table, tuple and set in the class bodies of transformers' files is taken by a form of
`Parent.name`, and the flat class's attribute is compared with what Python makes of the parent's
statement and of the form.  Names of the file stand for themselves: nothing is imported.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment

FORMS = {
    ast.List: (
        '{0} + ["x"]',
        '["x"] + {0}',
        '[*{0}, "x"]',
        '["x", *{0}, *{0}]',
        "list({0})",
        "{0}.copy()",
        "copy.deepcopy({0})",
        "{0}",
        '[each for each in {0} if each != "x"]',
        "{0}[:1]",
        "tuple({0})",
        'sorted({0}, key=str) + ["x"]',
        '{0} + (["x"] + {0})',
        "{0} or []",
        "set(map(str, {0}))",
    ),
    ast.Dict: (
        '{{**{0}, "x": "y"}}',
        '{{"x": "y", **{0}}}',
        '{0} | {{"x": "y"}}',
        '{{"x": "y"}} | {0}',
        "dict({0})",
        'dict({0}, x="y")',
        "{0}.copy()",
        "copy.copy({0})",
        "copy.deepcopy({0})",
        "{{**{0}, {1}: None}}",
        "{{key: value for key, value in {0}.items()}}",
        "{{{1}: [1, 2], **{0}, **{{'z': 3}}}}",
        '{{"of": {0}, "keys": list({0})}}',
        '[*{0}, "x"]',
        "tuple({0})",
        "{0}",
    ),
    ast.Tuple: ('{0} + ("x",)', '(*{0}, "x")', "tuple({0})", "list({0})", "{0}[0]", "({0}, 1)"),
    ast.Set: ('{0} | {{"x"}}', '{{*{0}, "x"}}', "set({0})", "{0}.copy()", "frozenset({0})"),
}
NEW = "made_of_the_parents"
UNCHANGED = "PG408"
# What cannot be reached by the parent's name, and a class that is not in the file.
REFUSALS = {"PG212", "PG409", UNCHANGED}


def find_files() -> list[Path]:
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    models = Path(spec.origin).parent / "models"
    return sorted([*models.glob("*/modeling_*.py"), *models.glob("*/configuration_*.py")])


@dataclass(frozen=True)
class Attribute:
    """`name`, a literal in the body of class `owner`; `reader` is it, or a class over it."""

    reader: str
    owner: str
    name: str
    statement: str
    value: ast.expr

    def form(self, number: int) -> str:
        forms = FORMS[type(self.value)]
        keys = self.value.keys if isinstance(self.value, ast.Dict) else []
        key = ast.unparse(keys[0]) if keys and keys[0] is not None else "'x'"
        return forms[number % len(forms)].format(f"parent.{self.reader}.{self.name}", key)


def find_attributes(tree: ast.Module) -> Iterator[Attribute]:
    """One attribute of each class, and of each class that inherits it from one of its file."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in classes.values():
        bases = [ast.unparse(base) for base in node.bases]
        owners = [
            node,
            *(classes[base] for base in bases[:1] if base in classes and len(bases) == 1),
        ]
        for owner in owners:
            for statement in owner.body:
                target = (
                    getattr(statement, "target", None) or [*getattr(statement, "targets", []), 0][0]
                )
                value = getattr(statement, "value", None)
                if (
                    type(value) in FORMS
                    and isinstance(target, ast.Name)
                    and getattr(value, "elts", True) != []
                ):
                    found = Attribute(
                        node.name, owner.name, target.id, ast.unparse(statement), value
                    )
                    # What the class binds itself hides what it inherits.
                    own = {ast.unparse(each).split(":")[0].split(" =")[0] for each in node.body}
                    if owner is node or target.id not in own:
                        yield found


class Name:
    """What a name of the file stands for: itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getattr__(self, name: str) -> Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self.text}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Name:
        return Name(f"{self.text}{args}{kwargs}")

    def __getitem__(self, key: object) -> Name:
        return Name(f"{self.text}[{key}]")

    def __or__(self, other: object) -> Name:
        return Name(f"{self.text} | {other}")

    __ror__ = __or__

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and self.text == other.text


def run(text: str, known: dict[str, object]) -> dict[str, object]:
    """What Python makes of statements in which each free name stands for itself."""
    tree = ast.parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    free = {name: Name(name) for name in names if not hasattr(builtins, name)}
    space: dict[str, object] = {**free, **known, "copy": copy, "__name__": "shown"}
    exec(compile("from __future__ import annotations\n" + text, "<shown>", "exec"), space)
    return space


class Parents:
    """`parent.Toy`: the classes that a modular file imports."""

    def __init__(self, space: dict[str, object]) -> None:
        self.__dict__.update(space)


def check(path: Path, number: int, folder: Path) -> list[str]:
    """What becomes of one attribute of each class of a file."""
    chosen: dict[str, Attribute] = {}
    for attribute in find_attributes(ast.parse(path.read_text(encoding="utf-8"))):
        # One of each class: a class that inherits comes with the other parity.
        chosen.setdefault(attribute.reader, attribute)
    numbered = enumerate(chosen.values(), start=number)
    return [check_attribute(path, attribute, place, folder) for place, attribute in numbered]


def check_attribute(path: Path, attribute: Attribute, number: int, folder: Path) -> str:
    """ "written", "unchanged", "refused", or what is wrong with a form of an attribute."""
    module = f"transformers.models.{path.parent.name}.{path.stem}"
    package = folder / "made"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    form = attribute.form(number)
    new = attribute.name if number % 2 else NEW
    above = f"import copy\nfrom {module.rpartition('.')[0]} import {path.stem} as parent\n"
    above += f"class {attribute.reader}(parent.{attribute.reader}):\n"
    modular = package / f"modular_{path.parent.name}_made.py"
    result = convert(modular, f"{above}    {new} = {form}\n", folder)
    codes = {problem.code for problem in result.problems}
    if codes - REFUSALS:
        # What is written about another member of the class may be refused as well.
        is_refused = convert(modular, f"{above}    another = 1\n", folder).problems
        return "refused" if is_refused else f"{attribute.reader}: {form}: {result.problems[0]}"
    try:
        python, parents = run_form(attribute, new, form)
    except TypeError:  # a form that Python does not take for this value
        return "refused" if codes else "written"
    if codes == {UNCHANGED}:
        made, outcome = parents, "unchanged"
    elif codes:
        return "refused"
    else:
        flat = next(f.text for f in result.files if f.name.startswith(path.stem.partition("_")[0]))
        made, outcome = read_flat(flat, attribute, new), "written"
    if made != python or type(made) is not type(python):
        return f"{attribute.reader}.{new} = {form}: {made} and not {python}"
    return outcome


def run_form(attribute: Attribute, new: str, form: str) -> tuple[object, object]:
    """What Python makes of a form, and the parent's own value; raises TypeError."""
    parents = f"class {attribute.owner}:\n    {attribute.statement}\n"
    if attribute.reader != attribute.owner:
        parents += f"class {attribute.reader}({attribute.owner}): pass\n"
    space = run(parents, {})
    parents_value = getattr(space[attribute.reader], attribute.name)
    return run(f"{new} = {form}", {"parent": Parents(space)})[new], parents_value


def convert(modular: Path, text: str, folder: Path) -> Flattened:
    modular.write_text(text)
    return flatten(modular, make_environment(folder, search=sys.path), Settings())


def read_flat(flat: str, attribute: Attribute, new: str) -> object:
    """The value of the flat class's attribute, with what its bases in the file have."""
    classes = {node.name: node for node in ast.parse(flat).body if isinstance(node, ast.ClassDef)}
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        bases = [base for base in map(ast.unparse, classes[name].bases) if base in classes]
        for base in bases:
            add(base)
        wanted = {attribute.name, new}
        body = [
            ast.unparse(statement)
            for statement in classes[name].body
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
            if wanted & {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
            if ast.unparse(statement).partition(" ")[0].strip(":") in wanted
        ]
        texts.setdefault(
            name, f"class {name}({', '.join(bases)}):\n    " + "\n    ".join(["pass", *body])
        )

    add(attribute.reader)
    return getattr(run("\n".join(texts.values()), {})[attribute.reader], new)


FILES = find_files()


OUTCOMES = ("written", "unchanged", "refused")


def assert_right(found: list[str]) -> None:
    wrong = [each for each in found if each not in OUTCOMES]
    assert not wrong, f"{len(wrong)} of {len(found)}\n" + "\n".join(wrong[:40])
    assert len(found) - found.count("refused") >= 0.85 * len(found) > 0
    print({outcome: found.count(outcome) for outcome in OUTCOMES})


# A file with a literal of each kind.
SAMPLE = {
    ast.List: "configuration_llama",
    ast.Dict: "configuration_llama",
    ast.Tuple: "configuration_beit",
    ast.Set: "configuration_glm4v",
}


def test_each_form(tmp_path: Path) -> None:
    found = []
    for kind, stem in SAMPLE.items():
        (path,) = [path for path in FILES if path.stem == stem]
        attributes = find_attributes(ast.parse(path.read_text(encoding="utf-8")))
        attribute = next(each for each in attributes if isinstance(each.value, kind))
        for number in range(len(FORMS[kind])):
            found.append(check_attribute(path, attribute, number, tmp_path))
    assert_right(found)


def test_a_class_that_is_refused_whatever_it_changes(tmp_path: Path) -> None:
    (path,) = [path for path in FILES if path.stem == "modeling_bart"]
    attributes = find_attributes(ast.parse(path.read_text(encoding="utf-8")))
    attribute = next(each for each in attributes if each.reader == "PretrainedBartModel")
    assert check_attribute(path, attribute, 0, tmp_path) == "refused"
    (path,) = [path for path in FILES if path.stem == "configuration_llama"]
    attribute = next(find_attributes(ast.parse(path.read_text(encoding="utf-8"))))
    attribute = replace(attribute, name="__slots__")
    assert "PG100" in check_attribute(path, attribute, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
def test_every_model(part: int, tmp_path: Path) -> None:
    assert_right([each for path in FILES[part::8] for each in check(path, part, tmp_path)])
