"""Modular files with mistakes that only a running program would meet, and what is right beside them.

Each file has several, of one model: a tuple of another length, flags that are no flags, plans and tied keys
of modules that do not exist, and fields that the configuration does not have.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from transformers import PreTrainedModel

from tests.population.models import Model, arguments_of

FLAGS = sorted(
    name
    for name, value in vars(PreTrainedModel).items()
    if not callable(value) and not isinstance(value, classmethod | property | staticmethod)
    if re.match(r"_?(supports|no_split|keys|keep|skip|can|is_stateful|main|base_model_p)", name)
)


@dataclass(frozen=True)
class File:
    """A modular file, with the words of each of its mistakes: the code, and what it is about."""

    kind: str
    name: str
    text: str
    mistakes: tuple[tuple[str, str], ...]


def misspell(name: str) -> list[str]:
    """Names that are not `name`, as people write them: most are further away than one letter."""
    words = name.strip("_").split("_")
    start = "_" * (len(name) - len(name.lstrip("_")))
    middle = len(name) // 2
    made = [
        name[:middle] + name[middle + 1 :],
        name[:middle] + name[middle + 1 : middle + 2] + name[middle] + name[middle + 2 :],
        name + "s" if name[-1] != "s" else name[:-1],
        name.replace("tt", "t"),
        start + "_".join(word.rstrip("s") for word in words),
        start + "".join(words),
        name[:3] + name[5:],
    ]
    if start:
        made.append(name[1:])
    if len(words) > 2:
        made += [start + "_".join(words[:-1]), start + "_".join([words[0], *words[2:]])]
    return [each for each in dict.fromkeys(made) if each and each != name]


def write_files(model: Model) -> Iterator[File]:
    yield from write_tuples(model)
    yield from write_attention(model)
    yield from write_flags(model)
    yield from write_keys(model)
    yield from write_plans(model)
    yield from write_fields(model)
    yield from write_orders(model)
    yield from write_orders_of_layers(model)


def _begin(model: Model, body: str, module: str = "") -> str:
    names = {n.id for n in ast.walk(ast.parse(body)) if isinstance(n, ast.Name)}
    known = {**model.imports, "torch": "import torch", "nn": "from torch import nn"}
    lines = sorted({known[name] for name in names & {*known}} - {""})
    package, _, last = (module or model.module).rpartition(".")
    return "\n".join([*lines, f"from {package} import {last} as hf", "", "", body, ""])


# Tuples


def write_tuples(model: Model) -> Iterator[File]:
    """For each class whose call is unpacked: one value more, one less, and as many."""
    for name, wanted in sorted(find_unpacked(model).items()):
        owner, _, method = name.partition(".")
        node = model.method(owner, method)
        if node.decorator_list or "super()" in ast.unparse(node):
            continue
        for change in (-1, 0, 1):
            changed = model.qualified(node)
            for inner in ast.walk(changed):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Tuple):
                    elements = inner.value.elts
                    inner.value.elts = [*elements, ast.Constant(None)][: len(elements) + change]
            if wanted + change < 2:
                continue
            body = f"class {owner}(hf.{owner}):\n" + _indent(ast.unparse(changed))
            mistakes = (("PG425", f"{owner}.{method}"),) if change else ()
            yield File(
                f"tuple{change:+}", f"{owner}_{method}{change}", _begin(model, body), mistakes
            )


def find_unpacked(model: Model) -> dict[str, int]:
    """Methods `Class.forward` that return tuples of one length, which some caller unpacks."""
    made: dict[tuple[str, str], set[str]] = {}
    for name, node in model.classes.items():
        for inner in ast.walk(node):
            match inner:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                    value=ast.Call(func=ast.Name(id=kind)),
                ):
                    made.setdefault((name, attribute), set()).add(kind)
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                    value=ast.Call(func=ast.Subscript(value=ast.Name(id=table))),
                ):
                    for value in getattr(
                        getattr(model.definitions.get(table), "value", None), "values", ()
                    ):
                        made.setdefault((name, attribute), set()).add(ast.unparse(value))
    found: dict[str, int] = {}
    for name, node in model.classes.items():
        for inner in ast.walk(node):
            match inner:
                case ast.Assign(
                    targets=[ast.Tuple(elts=targets)],
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attribute)),
                ) if not any(isinstance(each, ast.Starred) for each in targets):
                    for kind in made.get((name, attribute), ()):
                        if _count_values(model, kind, "forward") == len(targets):
                            found[f"{kind}.forward"] = len(targets)
                    if _count_values(model, name, attribute) == len(targets):
                        found[f"{name}.{attribute}"] = len(targets)
    return found


def _count_values(model: Model, owner: str, method: str) -> int:
    """How many values a method of a class itself returns; 0 where that is not one number."""
    for node in model.classes[owner].body if owner in model.classes else ():
        if isinstance(node, ast.FunctionDef) and node.name == method:
            nested = {
                id(r)
                for f in ast.walk(node)
                if f is not node and isinstance(f, ast.FunctionDef)
                for r in ast.walk(f)
            }
            returns = [
                r.value for r in ast.walk(node) if isinstance(r, ast.Return) and id(r) not in nested
            ]
            counts = {len(value.elts) if isinstance(value, ast.Tuple) else 0 for value in returns}
            return counts.pop() if len(counts) == 1 else 0
    return 0


def write_attention(model: Model) -> Iterator[File]:
    """`eager_attention_forward` that returns three values, and that returns two."""
    node = model.definitions.get("eager_attention_forward")
    if not isinstance(node, ast.FunctionDef) or "get_interface(" not in model.text:
        return
    for change in (0, 1):
        changed = model.qualified(node)
        for inner in ast.walk(changed):
            if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Tuple):
                inner.value.elts = [*inner.value.elts, *[ast.Constant(None)] * change]
        text = _begin(model, ast.unparse(changed))
        mistakes = (("PG425", node.name),) if change else ()
        yield File(f"attention{change:+}", f"attention{change}", text, mistakes)


# Flags


def write_flags(model: Model) -> Iterator[File]:
    if not model.pretrained:
        return
    made = [wrong for flag in FLAGS for wrong in misspell(flag)]
    # Each model has other ones of them.
    start = sum(map(ord, model.name))
    used = set(re.findall(r"\w+", model.text))
    chosen = [made[(start + 7 * number) % len(made)] for number in range(8)]
    chosen = [
        each
        for each in dict.fromkeys(chosen)
        if each not in used and not hasattr(PreTrainedModel, each)
    ]
    lines = [f"    {flag} = True" for flag in chosen]
    body = "\n".join([f"class {model.pretrained}(hf.{model.pretrained}):", *lines])
    mistakes = tuple(("PG422", f"{model.pretrained}.{flag}") for flag in chosen)
    yield File("flag", "flags", _begin(model, body), mistakes)
    right = [f"    {flag} = None" for flag in FLAGS]
    body = "\n".join([f"class {model.pretrained}(hf.{model.pretrained}):", *right])
    yield File("flag+0", "right_flags", _begin(model, body), ())


# Modules that do not exist


def _change_keys(keys: list[str]) -> list[str]:
    """Keys of modules that do not exist, from keys of some that do."""
    made: list[str] = []
    for key in keys:
        steps = key.split(".")
        places = [n for n, step in enumerate(steps) if step not in ("*", "weight", "bias")]
        for place in places[-2:]:
            for wrong in (misspell(steps[place])[0], "qqq_proj"):
                made.append(".".join([*steps[:place], wrong, *steps[place + 1 :]]))
        if len(places) > 1:
            # A module of the one, below the other.
            other = [each for each in keys if each.split(".")[:-1] != steps[:-1]]
            made += [
                ".".join([*steps[:-1], each.split(".")[-1]])
                for each in other[:1]
                if each.count(".") > 1
            ]
            made.append(".".join(steps[:-2] + steps[-1:]))
    return [each for each in dict.fromkeys(made) if each not in keys and len(each) > 3]


def write_keys(model: Model) -> Iterator[File]:
    """`_tied_weights_keys` and `_tp_plan` of models."""
    for name, node in model.classes.items():
        for statement in node.body:
            match statement:
                case ast.Assign(
                    targets=[ast.Name(id="_tied_weights_keys" | "_tp_plan" as table)],
                    value=ast.Dict(keys=[*keys], values=[*values]),
                ) if keys and all(isinstance(key, ast.Constant) for key in keys):
                    right = [str(ast.literal_eval(key)) for key in keys]
                    yield from _write_table(
                        model, model.module, name, table, right, ast.unparse(values[0])
                    )


def _write_table(
    model: Model, module: str, owner: str, table: str, right: list[str], value: str
) -> Iterator[File]:
    changed = _change_keys([key for key in right if re.fullmatch(r"[\w.*]+", key)])
    # What upstream ties it to is there.
    wrong = [key for key in changed if f'"{key}"' not in model.text]
    for kind, added in (("", wrong), ("+0", [])):
        lines = [f"        {key!r}: {value}," for key in [*right, *added]]
        body = "\n".join(
            [
                f"class {owner}(hf.{owner}):",
                f"    {table} = {{",
                *lines,
                "    }",
                "    extra_of_mine = 1",
            ]
        )
        mistakes = tuple(("PG426", f"{key} names no module") for key in added)
        yield File(
            f"{table}{kind}", f"{owner}_{table}{len(added)}", _begin(model, body, module), mistakes
        )


def write_plans(model: Model) -> Iterator[File]:
    """`base_model_tp_plan` of the configuration, beside a model that is a variant too."""
    path = model.path.with_name(model.path.name.replace("modeling_", "configuration_"))
    if not path.exists() or not model.pretrained:
        return
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            match statement:
                case ast.Assign(
                    targets=[ast.Name(id="base_model_tp_plan" as table)],
                    value=ast.Dict(keys=[*keys], values=[*values]),
                ) if keys and all(isinstance(key, ast.Constant) for key in keys):
                    right = [str(ast.literal_eval(key)) for key in keys]
                    module = model.module.replace("modeling_", "configuration_")
                    for file in _write_table(
                        model, module, node.name, table, right, ast.unparse(values[0])
                    ):
                        package, _, last = model.module.rpartition(".")
                        text = f"from {package} import {last} as model\n{file.text}\n\n"
                        text += f"class {model.pretrained}(model.{model.pretrained}):\n    extra_of_mine = 1\n"
                        yield File(file.kind, file.name, text, file.mistakes)


# Fields


def write_fields(model: Model) -> Iterator[File]:
    """Fields that the configuration does not have, read in a constructor that takes it."""
    for name, node in model.classes.items():
        init = next(
            (m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None
        )
        fields = sorted(
            {*re.findall(r"\bconfig\.(\w+)\b(?!\()", ast.unparse(init or ast.Pass()))} - {"to_dict"}
        )
        if init is None or not fields or not any(a.arg == "config" for a in init.args.args):
            continue
        text = model.text + "".join(
            each.read_text(encoding="utf-8")
            for each in model.path.parent.glob("configuration_*.py")
        )
        used = {*re.findall(r"\w+", text)}
        start = sum(map(ord, name))
        wrong = [misspell(field) for field in fields if len(field) > 5]
        chosen = [each[start % len(each)] for each in wrong if each]
        chosen = [each for each in dict.fromkeys(chosen) if each not in used and len(each) > 4][:4]
        for kind, read in (("field", chosen), ("field+0", fields)):
            lines = [f"        self.read_{n} = config.{field}" for n, field in enumerate(read)]
            body = "\n".join(
                [
                    f"class {name}(hf.{name}):",
                    f"    def __init__({model.signature(init)}):",
                    f"        super().__init__({arguments_of(init)})",
                    *lines,
                ]
            )
            mistakes = (
                tuple(("PG426", f"config.{field} is") for field in read) if kind == "field" else ()
            )
            yield File(kind, f"{name}_{kind[5:]}", _begin(model, body), mistakes)
        return


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.split("\n"))


# Order


def write_orders(model: Model) -> Iterator[File]:
    """Overrides whose two first parameters change places, of methods that are called by position."""
    for name, parameters in sorted(find_positional(model).items()):
        owner, _, method = name.partition(".")
        node = model.method(owner, method)
        first, second = parameters[:2]
        rest = node.args
        # Defaults stand where they stand: both have one, or neither.
        names = [each.arg for each in rest.args]
        required = len(names) - len(rest.defaults)
        if node.decorator_list or rest.vararg or required in (2,):
            continue
        signature = model.signature(node)
        passed = ", ".join(
            f"{each}={each}" for each in [*names[3:], *(a.arg for a in rest.kwonlyargs)]
        )
        passed += (", " if passed else "") + f"**{rest.kwarg.arg}" if rest.kwarg else ""
        swapped = _swap(signature, first, second)
        for kind, head, given in (
            ("order_of_override", swapped, f"{first}={first}, {second}={second}"),
            ("order_of_super", signature, f"{second}, {first}"),
            ("order+0", signature, f"{first}, {second}"),
            (
                "renamed+0",
                re.sub(rf"\b{second}\b", "another", signature, count=1),
                f"{first}, another",
            ),
        ):
            if kind == "renamed+0" and (second in passed or _is_named(model, second)):
                continue
            body = f"class {owner}(hf.{owner}):\n    def {method}({head}):\n"
            body += f"        made = super().{method}({', '.join(filter(None, [given, passed]))})\n        return made\n"
            mistakes = () if kind[-2:] == "+0" else (("PG413", name),)
            yield File(kind, f"{owner}_{method}_{kind[:-2]}", _begin(model, body), mistakes)


def _swap(signature: str, first: str, second: str) -> str:
    swapped = re.sub(rf"\b{first}\b", "\0", signature, count=1)
    return re.sub(rf"\b{second}\b", first, swapped, count=1).replace("\0", second)


def write_orders_of_layers(model: Model) -> Iterator[File]:
    """Overrides whose two first parameters change places, of which a loop passes the second by name."""
    for name, parameters in sorted(find_looped(model).items()):
        owner = name.partition(".")[0]
        node = model.method(owner, "forward")
        swapped = _swap(model.signature(node), *parameters[:2])
        body = f"class {owner}(hf.{owner}):\n    def forward({swapped}):\n        return {parameters[0]}\n"
        yield File(
            "order_of_layer", f"{owner}_layer", _begin(model, body), (("PG406", f"{name} gets"),)
        )


_LISTED = re.compile(r"self\.(\w+) = nn\.ModuleList\(\s*\[\s*(\w+)\(")


def find_looped(model: Model) -> dict[str, list[str]]:
    """`Class.forward` of the classes in lists; a loop calls them with one position and the second's name."""
    made: dict[str, set[str]] = {}
    for attribute, kind in _LISTED.findall(model.text):
        made.setdefault(attribute, set()).add(kind)
    found: dict[str, list[str]] = {}
    for loop in ast.walk(ast.parse(model.text)):
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        attribute = re.fullmatch(r"self\.(\w+)(\[.*\])?", ast.unparse(loop.iter))
        kinds = made.get(attribute[1], set()) & {*model.classes} if attribute else set()
        for call in ast.walk(loop) if len(kinds) == 1 else ():
            match call:
                case ast.Call(func=ast.Name(id=name), args=[_], keywords=keywords) if (
                    name == loop.target.id
                ):
                    (kind,) = kinds
                    names = [each.arg for each in model.method(kind, "forward").args.args][1:]
                    if names[1:2] and names[1] in [each.arg for each in keywords]:
                        found[f"{kind}.forward"] = names
    return found


def _is_named(model: Model, parameter: str) -> bool:
    """Whether a call passes the parameter by its name."""
    return re.search(rf"\b{parameter}=", model.text) is not None


def find_positional(model: Model) -> dict[str, list[str]]:
    """`Class.forward` of classes that one attribute alone is, and that is called with two positions or more."""
    made: dict[str, set[str]] = {}
    for match in re.finditer(r"self\.(\w+) = (\w+)", model.text):
        made.setdefault(match[1], set()).add(match[2])
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(model.text)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="self"), attr=attribute),
                args=[_, _, *_] as args,
            ) if not any(isinstance(each, ast.Starred) for each in args):
                kinds = made.get(attribute, set())
                if len(kinds) == 1 and {*kinds} <= {*model.classes}:
                    (kind,) = kinds
                    body = model.classes[kind].body
                    method = next(
                        (m for m in body if isinstance(m, ast.FunctionDef) and m.name == "forward"),
                        None,
                    )
                    names = [each.arg for each in method.args.args][1:] if method else []
                    if len(names) >= 2:
                        found[f"{kind}.forward"] = names
    return found
