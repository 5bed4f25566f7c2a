"""Rewrite a text of transformers 4: one small rule for each thing that has changed its ways.

Names that are merely gone are no matter of this module: `names` copies them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider

from patchgen.facts.decorators import DOCUMENTING
from patchgen.rescuing.classes import SETTINGS, Classes, code, last_name, with_lines

MASKS = {"create_causal_mask", "create_sliding_window_causal_mask", "create_chunked_causal_mask"}
# Methods that a base class of models gets.
COMPUTING = """
def _init_weights(self, module):
    compute_buffers(module)
    super()._init_weights(module)
"""
# What classes of models say, and what they say now.
STATED = {
    "load_tf_weights": ("", "TensorFlow checkpoints are not read any more, dropped"),
    "_supports_flash_attn_2": ("_supports_flash_attn = {}", "is `_supports_flash_attn` now"),
    "_supports_sdpa": ("_supports_sdpa = False", "sdpa refuses a soft cap, which it left out"),
    "_tied_weights_keys": ("", "is a mapping from each tied weight to its source now"),
}
SHARING = """
def get_expanded_tied_weights_keys(self, all_submodels=False):
    tied = super().get_expanded_tied_weights_keys(all_submodels)
    return with_aliases(self, tied)
"""
CHOOSING = """
def get_correct_attn_implementation(self, requested_attention, is_init_check=False):
    chosen = super().get_correct_attn_implementation(requested_attention, is_init_check)
    return chosen if requested_attention else usual_attention(self, chosen)
"""
FITTING = """
def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
    super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)
    usual = self.generation_config.cache_implementation
    kind = generation_config.cache_implementation or usual
    fit_masks(self, model_kwargs, kind, args[-1])
"""
GUARDED = "try:\n    pass\nexcept ImportError:\n    raise\n"
CLASS = m.Name(m.MatchRegex("[A-Z].*"))
OUTPUT = m.Call(func=CLASS | m.Attribute(attr=CLASS))


@dataclass(frozen=True)
class Note:
    """One change: the line in the old text, what it is about, and why."""

    line: int
    what: str
    why: str


class Rewriter(cst.CSTTransformer):
    """All rewrites in one pass over a module."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, classes: Classes, *, keeps_tuples: bool, is_copy: bool) -> None:
        super().__init__()
        self.classes = classes
        self.keeps_tuples = keeps_tuples
        self.is_copy = is_copy
        self.notes: list[Note] = []
        self.inside: list[str] = []  # the classes around the node
        self.functions: list[str] = []

    def note(self, node: cst.CSTNode, what: str, why: str) -> None:
        position: Any = self.get_metadata(PositionProvider, node, None)
        self.notes.append(Note(position.start.line if position else 0, what, why))

    # Statements and decorators that go.

    def leave_Decorator(self, old: cst.Decorator, new: cst.Decorator) -> Any:
        called = new.decorator.func if isinstance(new.decorator, cst.Call) else new.decorator
        if last_name(called) in DOCUMENTING:
            self.note(old, f"@{last_name(called)}", "documentation decorator, dropped")
            return cst.RemoveFromParent()
        return new

    def leave_If(self, old: cst.If, new: cst.If) -> Any:
        test = code(new.test)
        if "is_torch_fx_available" in test and new.orelse is None:
            self.note(old, f"if {test}:", "torch.fx needs no wrapping of mask helpers, dropped")
            return cst.RemoveFromParent()
        if self.functions == ["__init__"] and "kwargs" in test and m.findall(new.body, m.Raise()):
            self.note(old, f"if {test}:", "each configuration writes what all of them have now")
            line = cst.parse_statement("kwargs = unusual(kwargs)")
            return cst.FlattenSentinel([line, new]) if self._is_config() else new
        return new

    def _is_config(self) -> bool:
        return bool(self.inside) and self.classes.is_config(self.inside[-1])

    def leave_SimpleStatementLine(
        self, old: cst.SimpleStatementLine, new: cst.SimpleStatementLine
    ) -> Any:
        if self.functions == ["_init_weights"]:
            return self._initialized(old, new)
        small = new.body[0]
        if self.functions and _needs_package(small):
            why = "the loader asks for the package, unless the import stands in a `try`"
            self.note(old, code(small), why)
            guard = cst.ensure_type(cst.parse_statement(GUARDED), cst.Try)
            return guard.with_changes(body=cst.IndentedBlock([new]))
        beside = re.match(r"from \.(\w+) import", code(small)) if self.functions else None
        if beside and not self.is_copy and f"{beside[1]}.py" not in self.classes.files:
            self.note(old, code(small), "the loader asks for a file that the repository lacks")
            return cst.parse_statement(f"raise ImportError({code(small)!r})")
        if not self.inside or self.functions:
            return new
        if isinstance(small, cst.Assign | cst.AnnAssign):
            target = small.target if isinstance(small, cst.AnnAssign) else small.targets[0].target
            name = last_name(target)
            stays = name == "_supports_sdpa" and not self.classes.caps_scores
            if name not in STATED or stays or isinstance(small.value, cst.Dict):
                return new
            line, why = STATED[name]
            self.note(old, code(small), why)
            line = line.format(code(small.value) if small.value else None)
            return cst.parse_statement(line) if line else cst.RemoveFromParent()
        return new

    def _initialized(
        self, old: cst.SimpleStatementLine, new: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        """`weight.data.normal_()` only where the weight was not loaded."""
        small = new.body[0]
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return new
        weight, dot, _ = code(call.func.value).partition(".data")
        if not dot or not call.func.attr.value.endswith("_"):
            return new
        self.note(old, code(small), "would overwrite a weight that was loaded")
        test = cst.parse_expression(f"not getattr({weight}, '_is_hf_initialized', False)")
        body = cst.IndentedBlock([new.with_changes(leading_lines=[])])
        return cst.If(test, body, leading_lines=new.leading_lines)

    # Caches.

    def leave_Call(self, old: cst.Call, new: cst.Call) -> cst.BaseExpression:
        if code(new.func) in MASKS:
            self.note(old, f"{code(new.func)}(...)", "takes other arguments now")
            adapted = cst.Call(cst.Name("with_old_arguments"), [cst.Arg(new.func)])
            return new.with_changes(func=adapted)
        text, why = self._written_out(new)
        if not text:
            return new
        self.note(old, code(old), why)
        return cst.parse_expression(text)

    def _written_out(self, call: cst.Call) -> tuple[str, str]:
        """A call of what is gone, in other words, and why; empty if it stays."""
        args = [code(arg.value) for arg in call.args]
        owner, _, name = code(call.func).rpartition(".")
        why = "the cache has no such method any more"
        match name:
            case "from_legacy_cache":
                return f"{owner}({', '.join(args[:1])})", why
            case "to_legacy_cache":
                return f"tuple((layer.keys, layer.values) for layer in {owner}.layers)", why
            case "get_usable_length":
                return f"{owner}.get_seq_length({', '.join(args[1:])})", why
            case "get_max_length" | "get_max_cache_shape" if owner:
                return f"longest({owner})", "is -1 for a cache that grows, where it was None"
            case "_check_and_enable_sdpa" if owner == "super()":
                return args[0], "transformers chooses by itself"
            case "init_weights" if owner == "self" and "__init__" in self.functions:
                return "self.post_init()", "`post_init` also registers what transformers 5 reads"
        return "", ""

    def leave_Attribute(self, old: cst.Attribute, new: cst.Attribute) -> cst.BaseExpression:
        owner = code(new.value)
        if new.attr.value in ("seen_tokens", "_seen_tokens") and "past" in owner:
            self.note(old, code(old), "the cache counts by itself")
            return cst.parse_expression(f"{owner}.get_seq_length()")
        return new

    # Functions and classes.

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.functions.append(node.name.value)

    def leave_FunctionDef(self, old: cst.FunctionDef, new: cst.FunctionDef) -> Any:
        self.functions.pop()
        if not self.inside or self.functions:
            return new
        owner = self.inside[-1]
        name = new.name.value
        at = f"{owner}.{name}"
        taken = [param.name.value for param in (*new.params.params, *new.params.kwonly_params)]
        is_model = self.classes.is_model(owner)
        is_head = is_model and "PreTrainedModel" not in owner
        if name == "__init__" and is_head and ".post_init(" not in code(new.body):
            self.note(old, at, "`post_init` registers what transformers 5 reads")
            new = with_lines(new, "self.post_init()")
        if name == "__init__" and self._has_passing_buffers(owner):
            self.note(old, at, "buffers that no checkpoint has are empty after loading")
            decorator = cst.Decorator(cst.Name("keeps_arguments"))
            return new.with_changes(decorators=[decorator, *new.decorators])
        settings = sorted(SETTINGS & {*taken})
        if name == "__init__" and settings and self._is_config():
            self.note(old, at, "what `generate` takes has to be declared")
            lines = "".join(f"self.{setting} = {setting}\n" for setting in settings)
            return with_lines(new, lines, first=True)
        is_called = name == "tie_weights" and is_model or name == "validate" and self._is_config()
        if is_called and new.params.star_kwarg is None:
            self.note(old, at, "is called with arguments now")
            params = new.params.with_changes(star_kwarg=cst.Param(cst.Name("kwargs")))
            return new.with_changes(params=params)
        if not is_model:
            return new
        if name == "_set_gradient_checkpointing" and "value" in taken:
            self.note(old, at, "transformers sets the flag by itself, dropped")
            return cst.RemoveFromParent()
        if name == "_init_weights":
            return with_lines(new, f"compute_buffers({taken[-1]})", first=True)  # of copies, too
        if name == "_reorder_cache" and not self.keeps_tuples:
            self.note(old, at, "a cache orders its layers by itself, dropped")
            return cst.RemoveFromParent()
        before: list[str] = []
        cache = next((param for param in taken if param in ("past_key_values", "past")), None)
        if name == "prepare_inputs_for_generation":
            before += self._prepared(old, new, taken)
        if self.keeps_tuples and cache and name in ("forward", "prepare_inputs_for_generation"):
            self.note(old, at, "the model keeps tuples; `generate` passes a Cache")
            before = [f"{cache} = as_tuples({cache})", *before]
            if name == "forward":
                new = cst.ensure_type(m.replace(new, OUTPUT, _with_cache), cst.FunctionDef)
        if self.keeps_tuples and name == "_reorder_cache" and cache:
            before = [f"{cache} = as_tuples({cache})", f"if {cache} is None:\n    return None"]
            new = cst.ensure_type(m.replace(new, m.Return(), _with_cache), cst.FunctionDef)
        return with_lines(new, "\n".join(before), first=True) if before else new

    def _prepared(
        self, old: cst.FunctionDef, new: cst.FunctionDef, taken: Sequence[str]
    ) -> list[str]:
        """What makes of `generate`'s arguments those that it had before."""
        if new.params.star_kwarg is None:
            return []
        kwargs = new.params.star_kwarg.name.value
        past = "past_length_of(past_key_values)"
        lines = []
        if "past_key_values" not in taken:  # the layers keep what they have seen
            is_first = f"{kwargs}.get('is_first_iteration', True)"
            past = f"0 if {is_first} else input_ids.shape[1] - 1"
        elif "position_ids" in taken:
            lines = [f"if position_ids is not None:\n    position_ids = position_ids[:, {past} :]"]
        elif "position_ids" in code(new.body):
            ids = f"{kwargs}['position_ids']"
            test = f"if {kwargs}.get('position_ids') is not None:"
            lines = [f"{test}\n    past = {past}\n    {ids} = {ids}[:, past:]"]
        if "num_logits_to_keep" in taken:
            lines.append("if num_logits_to_keep is None:\n    num_logits_to_keep = 0")
        if "cache_position" in taken:
            counted = "torch.arange(past, input_ids.shape[1], device=device)"
            lines.append(
                f"if cache_position is None:\n    past = {past}\n    device = input_ids.device\n"
                f"    cache_position = {counted}"
            )
        at = f"{self.inside[-1]}.{new.name.value}"
        if lines:
            self.note(old, at, "`generate` passes all positions")
        body = code(new.body)
        hands_on = re.search(rf"\.update\({kwargs}\)|\*\*{kwargs}\b", body)
        if hands_on and "super()" not in body:
            self.note(old, at, "`generate` gives it more arguments, which no `forward` takes")
            for name in ("next_sequence_length", "is_first_iteration"):
                lines.append(f"{kwargs}.pop('{name}', None)")
        return lines

    def _has_passing_buffers(self, owner: str) -> bool:
        methods = self.classes.methods.get(owner, {})
        registering = m.Call(func=m.Attribute(attr=m.Name("register_buffer")))
        if any(m.findall(method, registering) for method in methods.values()):
            return True
        return "__init__" in methods and self._keeps_tensors(methods["__init__"])

    def _keeps_tensors(self, init: cst.FunctionDef) -> bool:
        """Whether a layer keeps what a function computes as a plain attribute."""
        assigned = m.Assign(targets=[m.AssignTarget(m.Attribute(value=m.Name("self")))])
        for node in m.findall(init, assigned):
            value = cst.ensure_type(node, cst.Assign).value
            if code(value).startswith(("nn.", "torch.nn.")):
                continue
            for call in m.findall(value, m.Call()):
                function = code(cst.ensure_type(call, cst.Call).func)
                if function in self.classes.functions or re.fullmatch(r"torch\.\w+", function):
                    return True
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.inside.append(node.name.value)

    def leave_ClassDef(self, old: cst.ClassDef, new: cst.ClassDef) -> Any:
        name = self.inside.pop()
        if any("Onnx" in base for base in self.classes.ancestors(name)[1:]):
            self.note(old, name, "transformers exports no ONNX by itself any more, dropped")
            return cst.RemoveFromParent()
        if self.classes.is_config(name):
            return with_lines(new, self.classes.declared(name))
        if not self.classes.is_model(name):
            return new
        methods = self.classes.methods[name]
        ancestors = self.classes.ancestors(name)
        if "prepare_inputs_for_generation" in methods and "GenerationMixin" not in ancestors:
            why = "`generate` comes from GenerationMixin, which PreTrainedModel leaves out now"
            self.note(old, name, why)
            mixin = cst.Arg(cst.Name("GenerationMixin"))
            new = new.with_changes(bases=[*new.bases, mixin])
        line = self.classes.tied_line(name)
        if line is not None:
            new = with_lines(new, line, first=True)
        if "_check_and_enable_sdpa" in methods:
            self.note(old, f"{name}._check_and_enable_sdpa", "is called no more")
            new = with_lines(new, CHOOSING)
        if "PreTrainedModel" not in self.classes.bases[name]:
            return new
        members = {
            COMPUTING: "_init_weights" not in methods,
            SHARING: self.is_copy or self.classes.shares,
            FITTING: self.classes.has_windows,
        }
        return with_lines(new, "".join(text for text, is_needed in members.items() if is_needed))


def _needs_package(statement: cst.BaseSmallStatement) -> bool:
    """Whether a statement imports from a package that not everybody has."""
    match statement:
        case cst.ImportFrom(module=cst.Attribute() | cst.Name() as module, relative=[]):
            package = code(module).partition(".")[0]
        case cst.Import(names=[alias]):
            package = code(alias.name).partition(".")[0]
        case _:
            return False
    return package not in ("torch", "transformers", *sys.stdlib_module_names)


def _with_cache(node: cst.CSTNode, _: object) -> cst.CSTNode:
    """A `return` of a cache, or an output that is made with one, with what makes it a Cache."""

    def wrapped(value: cst.BaseExpression) -> cst.Call:
        return cst.Call(cst.Name("as_cache"), [cst.Arg(value)])

    if isinstance(node, cst.Return):
        value = wrapped(node.value) if node.value else None
        return node.with_changes(value=value)
    arguments: list[cst.Arg] = []
    for argument in cst.ensure_type(node, cst.Call).args:
        if m.matches(argument, m.Arg(keyword=m.Name("past_key_values"))):
            argument = argument.with_changes(value=wrapped(argument.value))
        arguments.append(argument)
    return node.with_changes(args=arguments)


def rewrite(
    text: str, classes: Classes, *, keeps_tuples: bool, is_copy: bool = False
) -> tuple[str, list[Note]]:
    """The text for today's transformers, names aside, and what was changed.

    A copied definition stands alone: what the others of its module have is not known.
    """
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    rewriter = Rewriter(classes, keeps_tuples=keeps_tuples, is_copy=is_copy)
    tree = wrapper.visit(rewriter)
    return tree.code, rewriter.notes
