"""What the rules have to know of a repository's classes before one of them is rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst
import libcst.matchers as m

Block = TypeVar("Block", cst.ClassDef, cst.FunctionDef)
CONFIGS = {"PretrainedConfig", "PreTrainedConfig"}
# What `generate` takes, and configurations had.
SETTINGS = set(
    "max_length min_length do_sample num_beams temperature top_k top_p repetition_penalty"
    " length_penalty no_repeat_ngram_size early_stopping bad_words_ids num_return_sequences"
    " forced_bos_token_id forced_eos_token_id suppress_tokens begin_suppress_tokens".split()
)

# Modules of a model that share parameters: `self.a.weight = self.b.weight`, several tied weights,
# a list of heads.
SHARING = m.OneOf(
    m.Assign(
        targets=[m.AssignTarget(m.Attribute(value=m.Attribute(value=m.Name("self"))))],
        value=m.Attribute(value=m.Name("self")),
    ),
    m.Assign(
        targets=[m.AssignTarget(m.Name("_tied_weights_keys"))],
        value=m.List(elements=[m.DoNotCare(), m.AtLeastN(n=1)]),
    ),
    m.Assign(
        targets=[m.AssignTarget(m.Attribute(attr=m.Name(m.MatchRegex(".*head.*"))))],
        value=m.Call(func=m.Attribute(attr=m.Name("ModuleList"))),
    ),
)


def caps_scores(text: str) -> bool:
    """Whether a file hands a soft cap to sdpa, which left it out once and refuses it now."""
    return "ALL_ATTENTION_FUNCTIONS" in text and "softcap=" in text


@dataclass
class Classes:
    """The classes and functions of some files."""

    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    methods: dict[str, dict[str, cst.FunctionDef]] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    shares: bool = False  # whether modules of a model share parameters
    has_windows: bool = False  # whether the files read the size of a window of attention
    caps_scores: bool = False
    files: set[str] = field(default_factory=set)  # of the repository

    def read(self, tree: cst.Module) -> None:
        """Add the classes of one file."""
        self.caps_scores = self.caps_scores or caps_scores(tree.code)
        self.shares = self.shares or bool(m.findall(tree, SHARING))
        self.has_windows = self.has_windows or bool(m.findall(tree, m.Name("sliding_window")))
        for statement in tree.body:
            if isinstance(statement, cst.FunctionDef):
                self.functions.add(statement.name.value)
        for node in m.findall(tree, m.ClassDef()):
            assert isinstance(node, cst.ClassDef)
            name = node.name.value
            bases = [last_name(base.value) for base in node.bases]
            self.bases[name] = tuple(bases)
            self.values[name] = dict(_values_of(node))
            methods = self.methods[name] = {}
            for method in node.body.body:
                if isinstance(method, cst.FunctionDef):
                    methods[method.name.value] = method

    def ancestors(self, name: str) -> list[str]:
        """The class and what it derives from, as far as the files say."""
        names = [name]
        for ancestor in names:
            names += [base for base in self.bases.get(ancestor, ()) if base not in names]
        return names

    def is_model(self, name: str) -> bool:
        """Whether a class derives from a model class of transformers, or one like it."""
        return any(base.endswith("PreTrainedModel") for base in self.ancestors(name)[1:])

    def is_config(self, name: str) -> bool:
        """Whether a class is a configuration."""
        return any(base in CONFIGS or base.endswith("Config") for base in self.ancestors(name)[1:])

    def value(self, name: str, key: str) -> str | None:
        """The code of a class attribute, wherever it comes from."""
        values = (self.values.get(base, {}).get(key) for base in self.ancestors(name))
        return next(filter(None, values), None)

    def declared(self, name: str) -> str:
        """Lines of a configuration's class: what `generate` reads, and its number of layers."""
        init = self.methods[name].get("__init__")
        taken = [param.name.value for param in init.params.params] if init is not None else []
        lines = [f"{word}: object = None\n" for word in taken if word in SETTINGS]
        stated = self.values[name].get("attribute_map", "{}")
        usual = "num_hidden_layers"
        if usual not in stated and usual not in taken:
            for word in ("num_layers", "n_layers", "n_layer"):
                if word in taken:
                    lines.append(f"attribute_map = {{**{stated}, '{usual}': '{word}'}}")
                    break
        return "".join(lines)

    def tied_line(self, name: str) -> str | None:
        """The mapping from a head's tied weight to its source, as a line of the head's class."""
        output = _returned_path(self.methods[name].get("get_output_embeddings"))
        source = _returned_path(self.methods[name].get("get_input_embeddings"))
        source = source or self._embedding_of_base(name)
        if output is None or source is None:
            return None
        return f"_tied_weights_keys = {{'{output}.weight': '{source}.weight'}}"

    def _embedding_of_base(self, head: str) -> str | None:
        """Where the base model of a head has its embedding, seen from the head."""
        models = [name for name in self.bases if name != head and self.is_model(name)]
        prefix = (self.value(head, "base_model_prefix") or "").strip("\"'")
        # The model that the head builds, or else any that the usual name may stand for.
        places = [(self._built(head, model), model) for model in models]
        places += [(prefix, model) for model in models]
        for place, model in places:
            embedding = self._embedding(model)
            if not place or embedding is None:
                continue
            if not embedding.startswith(f"{place}."):
                return f"{place}.{embedding}"
        return None

    def _embedding(self, model: str) -> str | None:
        """What `get_input_embeddings` of a model returns, its own or the nearest inherited one."""
        for name in self.ancestors(model):
            getter = self.methods.get(name, {}).get("get_input_embeddings")
            if getter is not None:
                return _returned_path(getter)
        return None

    def _built(self, name: str, other: str) -> str:
        """Where the `__init__` of a model puts another one."""
        built = m.Assign(value=m.Call(func=m.Name(other)))
        init = self.methods[name].get("__init__")
        if init is None:
            return ""
        for node in m.findall(init, built):
            return code(cst.ensure_type(node, cst.Assign).targets[0].target).removeprefix("self.")
        return ""


def _values_of(node: cst.ClassDef) -> Iterator[tuple[str, str]]:
    for line in node.body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            continue
        for small in line.body:
            if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
                yield small.targets[0].target.value, code(small.value)


def _returned_path(method: cst.FunctionDef | None) -> str | None:
    """`model.embed_tokens` of a method that says `return self.model.embed_tokens`."""
    returns = m.findall(method, m.Return()) if method is not None else []
    if len(returns) != 1 or not isinstance(returns[0], cst.Return) or returns[0].value is None:
        return None
    path = code(returns[0].value)
    return path[5:] if path.startswith("self.") and "(" not in path else None


def last_name(node: cst.BaseExpression) -> str:
    """`c` of `a.b.c`."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def code(node: cst.CSTNode) -> str:
    """The text of a node."""
    return cst.Module([]).code_for_node(node)


def with_lines(node: Block, text: str, *, first: bool = False) -> Block:
    """A class or function with the statements of `text` at its end, or after its docstring."""
    body: list[Any] = []
    for line in node.body.body:
        # `def f(self): return 1`, on one line.
        if isinstance(line, cst.BaseSmallStatement):
            line = cst.SimpleStatementLine([line])
        body.append(line)
    place = len(body)
    if first:
        docstring = m.SimpleStatementLine([m.Expr(m.SimpleString())])
        place = int(m.matches(body[0], docstring))
    body[place:place] = cst.parse_module(text).body
    block = node.body if isinstance(node.body, cst.IndentedBlock) else cst.IndentedBlock([])
    return node.with_changes(body=block.with_changes(body=body))
