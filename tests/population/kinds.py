"""Modular files of the kinds that engineers write: the forms of `forms.txt`, filled for each model."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from random import Random
from string import Template

from tests.population.models import Model, arguments_of, find_models

NEW = "Tiny"  # prefix of new models
ROLES = {
    "attention": r"Attention$",
    "layer": r"Layer$",
    "block": r"Block$",
    "mlp": r"(MLP|Mlp|FeedForward|FFN|Intermediate)$",
}
# First arguments that are states, and arguments that a replaced function halves.
STATES = ("hidden_states", "hidden_state", "x", "inputs", "input", "features", "query_states")
HALVED = ("scaling", "x", "q", "hidden_states", "query")
# The models that a second class is taken from.
SECOND = """llama qwen3 gemma2 mistral mixtral olmo2 phi3 deepseek_v3 gpt_neox gpt2 bert roberta vit
clip siglip bart t5 wav2vec2 whisper detr swin qwen2_vl falcon bloom opt""".split()


Form = tuple[str, str, dict[str, str], str]


def read_forms(path: Path) -> list[Form]:
    """Kind, name, options and text of each form in a file."""
    forms: list[Form] = []
    for part in re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        title, _, text = part.partition("\n")
        kind, name, *options = title.split()
        forms.append((kind, name, dict(option.split("=") for option in options), text))
    return forms


FORMS = read_forms(Path(__file__).with_name("forms.txt"))
IMPORT_TIME = "import"  # what acts when a file is imported
DRAWN = 4  # files of that kind for a model
_STATEMENTS = read_forms(Path(__file__).with_name("import_time.txt"))
KINDS = (*dict.fromkeys(kind for kind, *_ in FORMS), IMPORT_TIME)


@dataclass(frozen=True)
class Case:
    """One modular file."""

    kind: str
    form: str
    model: Model
    body: str
    renames: dict[str, str]  # new name: the model's
    head: str  # the class to be built
    like: str  # the class of the model that takes the same inputs, where it is not the head

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", f"{self.kind}_{self.form}_{self.model.name}")

    @property
    def text(self) -> str:
        package, _, module = self.model.module.rpartition(".")
        imports = "\n".join([*self._imports, f"from {package} import {module} as hf"])
        body = re.sub(r"^(?=@|(?<!strict\n)(?<!class\n)class |def )", "\n\n", self.body, flags=re.M)
        return f'"""{self.kind} {self.form}."""\n\n{imports}\n{body.rstrip()}\n'

    @cached_property
    def _imports(self) -> list[str]:
        """What code that was taken from the model's file needs."""
        nodes = [*ast.walk(ast.parse(self.body))]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names -= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
        known = {**self.model.imports, "nn": "from torch import nn"}
        known |= {name: f"import {name}" for name in ("functools", "os", "torch")}
        return [known[name] for name in sorted(names) if known.get(name)]


def find_cases(model: Model, kind: str, seed: int) -> list[Case]:
    """The files of one kind for a model: of the forms that fit, one that `seed` draws."""
    if kind == IMPORT_TIME:
        numbers = range(seed * DRAWN, (seed + 1) * DRAWN) if model.head else ()
        return [_make_import_time_case(model, number) for number in numbers]
    random, cases = Random(f"{seed} {kind} {model.name}"), []
    forms = [form for form in FORMS if form[0] == kind and model.head]
    for role in ROLES if kind == "block" else [""]:  # a file for each
        for _, name, options, text in random.sample(forms, len(forms)):
            try:
                of = role or options.get("of")
                chosen = random.choice(_pool(model, of)) if of else model.head
                facts = Facts(model, chosen, random)
                label = "-".join(filter(None, [role, name]))
                cases.append(_fill(kind, label, facts, text, options))
                break
            except LookupError:  # the form does not fit
                continue
    return cases


def _make_import_time_case(model: Model, number: int) -> Case:
    """A variant with up to three statements that act at import, drawn for `number`."""
    random = Random(f"{number} {model.name}")
    others = sorted(model.reachable(model.head) - {model.head})
    facts = Facts(model, random.choice(others or [model.head]), random)
    drawn, parts = random.sample(_STATEMENTS, 3), {"above": "", "below": ""}
    names = []
    for place, name, _, text in drawn[: random.randint(1, 3)]:
        try:
            parts[place] += Template(text).substitute(facts)
            names.append(name)
        except LookupError:  # the form does not fit
            continue
    body = f"{parts['above']}class {model.head}(hf.{model.head}):\n    mark = 1\n{parts['below']}"
    return Case(IMPORT_TIME, "-".join([str(number), *names]), model, body, {}, model.head, "")


def _fill(kind: str, label: str, facts: Facts, text: str, options: dict[str, str]) -> Case:
    new = re.findall(r"\$new_(\w+)", text) + (["name"] if "$whole" in text else [])
    renames = {facts[f"new_{word}"]: facts[word] for word in new}
    if "$all_renamed" in text:
        renames = {facts.renamed(name): name for name in facts.model.renamable}
    elif new and "like" not in options:
        renames[facts["new_head"]] = facts["head"]
        text += "class $new_head(hf.$head):\n    pass\n"
    facts["default"] = facts["new_head" if renames else "head"]
    texts = (text, options.get("head", "$default"), options.get("like", ""))
    body, head, like = (Template(text).substitute(facts) for text in texts)
    return Case(kind, label, facts.model, body, renames, head, like)


def _pool(model: Model, pool: str) -> list[str]:
    """Classes that the main head is made of, of a role or fit for something."""
    names = [name for name in model.renamable if name in model.reachable(model.head)]
    fits = {"fed": state_argument, "paired": _pairs, "passed": _passed}
    if pool != "passed":
        role = ROLES.get(pool, "|".join(ROLES.values()))
        names = [name for name in names if re.search(role, name)]
    return [n for n in names if fits[pool](model, n)] if pool in fits else names


class Facts(dict[str, str]):
    """What the forms say of a model and one of its classes; raises LookupError for what is not so."""

    def __init__(self, model: Model, name: str, random: Random) -> None:
        self.model, self.random = model, random
        self |= {"name": name, "word": name.removeprefix(model.prefix)}
        for word in ("head", "base", "pretrained", "prefix"):
            if value := getattr(model, word):
                self[word] = value

    def __missing__(self, key: str) -> str:
        kind, _, rest = key.partition("_")
        if kind == "new":
            self[key] = self.renamed(self[rest])
        elif kind == "build":
            init = self.model.method(self[rest], "__init__")
            call = f"super().__init__({arguments_of(init)})"
            self[key] = f"def __init__({self.model.signature(init)}):\n        {call}"
        else:
            self[key] = FACTS[key](self)
        if not self[key]:
            raise LookupError(key)
        return self[key]

    def renamed(self, name: str) -> str:
        return NEW + name.removeprefix(self.model.prefix)

    def forward(self, changed: str) -> str:
        forward = self.model.method(self["name"], "forward")
        call = f"super().forward({arguments_of(forward, changed)})"
        text = f"def forward({self.model.signature(forward)}):\n        return {call}"
        return text if state_argument(self.model, self["name"]) else ""

    def anew(self) -> str:
        """The parent's `__init__`, without a call of it."""
        init = ast.unparse(self.model.qualified(self.model.method(self["name"], "__init__")))
        anew = init.replace("super().__init__()", "nn.Module.__init__(self)")
        return anew.replace("\n", "\n    ") if anew != init else ""

    def whole(self) -> str:
        """The class as if it were written anew."""
        name, node = self["name"], self.model.classes[self["name"]]
        text = ast.unparse(self.model.qualified(node)).partition(f"class {name}")[2]
        read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        conditional = any(self.model.imports.get(name) == "" for name in read)
        return (
            ""
            if conditional or re.search(rf"\b{name}\b", text)
            else f"class {self['new_name']}{text}"
        )

    def owner(self) -> str:
        """A class whose `__init__` makes a `name` of its own parameters."""
        for owner in sorted({*self.model.renamable} & self.model.reachable(self["head"])):
            for init in self.model.classes[owner].body:
                for node in init.body if getattr(init, "name", "") == "__init__" else ():
                    line = rf"(self\.\w+) = {self['name']}\((.*)\)"
                    match = re.fullmatch(line, ast.unparse(node))
                    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                    if match and read <= {self["name"], *(a.arg for a in init.args.args)}:
                        self["target"], self["built"] = match.groups()
                        return owner
        return ""

    def second(self) -> str:
        other, name = self.random.choice(_pairs(self.model, self["name"]))
        package, _, module = other.module.rpartition(".")
        self["second_import"] = f"from {package} import {module} as second"
        return name

    def function(self) -> str:
        """A function that takes one argument halved, or as it is."""
        read = sorted(self.model.reachable(self["head"]))
        nodes = [self.model.definitions[name] for name in read]
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.args.args]
        halved = [f for f in functions if any(a.arg in HALVED for a in f.args.args)]
        node = self.model.qualified(self.random.choice(halved or functions))
        node.decorator_list, names = [], [a.arg for a in node.args.args]
        first = next((name for name in HALVED if name in names), names[0])
        line = f"{first} = {first}" + (" * 0.5" if halved else "")
        node.body.insert(0, ast.parse(line).body[0])
        return ast.unparse(node)

    def config(self) -> str:
        for node in self.model.classes[self["pretrained"]].body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "config":
                name = ast.unparse(node.annotation)
                return (
                    name if name.startswith(self["prefix"]) and name in self.model.imports else ""
                )
        return ""

    def returned(self) -> str:
        """The class of the base model's outputs."""
        returns = self.model.method(self["base"], "forward").returns
        names = re.findall(r"\w*Output\w*", ast.unparse(returns)) if returns else []
        return "".join(names[:1])


FACTS: dict[str, Callable[[Facts], str]] = {
    "halve": lambda f: f.forward("{} * 0.5"),
    "gain": lambda f: f.forward("{} * self.gain"),
    "anew": Facts.anew,
    "whole": Facts.whole,
    "passed": lambda f: _passed(f.model, f["name"]),
    "all_passed": lambda f: "\n".join(_passed(f.model, name) for name in f.model.classes),
    "all_renamed": lambda f: "\n".join(
        f"class {f.renamed(name)}(hf.{name}):\n    pass" for name in f.model.renamable
    ),
    "other_head": lambda f: f.random.choice(
        [n for n in f.model.public if re.search("For[A-Z]", n)]
    ),
    "width": lambda f: "config.hidden_size" * ("config.hidden_size" in f.model.texts[f["base"]]),
    "owner": Facts.owner,
    "second": Facts.second,
    "second_import": lambda f: f["second"] and f["second_import"],
    "function": Facts.function,
    "config": Facts.config,
    "config_argument": lambda f: "config" * ("(self, config" in f.model.texts[f["name"]]),
    "base_forward": lambda f: f.model.signature(f.model.method(f["base"], "forward")),
    "base_arguments": lambda f: arguments_of(f.model.method(f["base"], "forward")),
    "returned": Facts.returned,
    "own_output": lambda f: f["returned"] * (f["returned"] in f.model.classes),
    "shared_output": lambda f: f["returned"] * (f["returned"] in f.model.imports),
}


@cache
def state_argument(model: Model, name: str) -> str:
    """The first argument of a class's `forward`, where it is states; else ""."""
    try:
        model.method(name, "__init__")
        first = arguments_of(model.method(name, "forward")).partition(",")[0]
    except LookupError:
        return ""
    return first if first in STATES else ""


@cache
def _passed(model: Model, name: str) -> str:
    """A class with each method passed to `super()`; "" where it has none."""
    methods = []
    defined = [m for m in model.classes[name].body if isinstance(m, ast.FunctionDef)]
    for member in defined:
        decorators = [ast.unparse(d) for d in member.decorator_list]
        special = member.name.startswith("__") and member.name != "__init__"
        twice = [m.name for m in defined].count(member.name) > 1
        if special or twice or "staticmethod" in decorators:
            continue  # `super()` does not fit, or another definition belongs to it
        kept = "".join(f"    @{d}\n" for d in decorators if d in ("classmethod", "property"))
        call = "" if "property" in decorators else f"({arguments_of(member)})"
        methods.append(
            f"{kept}    def {member.name}({model.signature(member)}):\n"
            f"        return super().{member.name}{call}\n"
        )
    return f"class {name}(hf.{name}):\n" + "\n".join(methods) if methods else ""


@cache
def _pairs(model: Model, name: str) -> list[tuple[Model, str]]:
    """Classes of other models that are built, called and configured as `name` is."""
    pairs, word = [], name.removeprefix(model.prefix)
    for other in [m for m in find_models() if m.name in SECOND and m != model]:
        theirs = other.prefix + word
        try:
            called = [
                [of.signature(of.method(n, m)) for m in ("__init__", "forward")]
                for of, n in ((model, name), (other, theirs))
            ]
        except LookupError:
            continue
        text = "\n".join(other.texts[n] for n in other.reachable(theirs))
        settings, read = (re.findall(r"config\.(\w+)", t) for t in (text, model.text))
        if called[0] == called[1] and {*read} >= {*settings}:
            pairs.append((other, theirs))
    return pairs
