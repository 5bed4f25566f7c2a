"""Which cases are run for a variant, selected from its text and its parts before a model is built.

A case can turn out to have nothing to compare; its result is then `NONE`, with the reason.  Each
case comes next that brings most that is new (another padding, head, configuration, way to call the
model, changed line) for what it costs.  Behind them come planted errors, then what brings nothing
new.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from patchgen.facts.published import Setting
from patchgen.verifying.checks.context import Case
from patchgen.verifying.checks.itself import WAYS
from patchgen.verifying.checks.numbers import ALONE
from patchgen.verifying.configs import read
from patchgen.verifying.inputs import arguments
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.observe.step import BY_CONFIGURATION, FROZEN, LEARNING, OF_MODELS
from patchgen.verifying.parts.combine import training_scenario
from patchgen.verifying.parts.layers import NORMS_ALONE
from patchgen.verifying.parts.part_check import PartCheck, Promise, Rows, Scenario
from patchgen.verifying.variants import SETTING, Plan, Variant

ROWS: tuple[Rows, ...] = ("full", "right", "left", "packed")
EVAL_ROWS: tuple[Rows, ...] = ("full", "left")
# Texts of one token and no full row; rows of one, two and three texts.
ODD_ROWS: tuple[Rows, ...] = ("short", "several")
DROPOUT = 0.2
# Tokens: longer than any window, so that scores become larger than what they are made of.
LONG = 37
# More than bfloat16 can count one by one.
MANY = 300
TOGETHER = 12
FRACTION = "max_labelled_fraction"  # which ways to label go beyond


def compare_numbers(
    head: str, dtype: str, label: str, scenario: Scenario, route: int = 0, **more: Any
) -> Case:
    """The case that compares all numbers of one step, called "LlamaModel float64 left train"."""
    return Case(f"{head} {dtype} {label}", "numbers", head, dtype, route, scenario, **more)


# --- ways to call a model

# All run in float64, the most sensitive dtype.
CALLS: Mapping[str, Scenario] = {
    "typed": Scenario(rows="right", ways=("types of tokens",)),
    "embedded": Scenario(rows="right", ways=("embeddings",)),
    "placed": Scenario(ways=("positions",)),
    "typed, placed, embedded": Scenario(
        "left", ways=("types of tokens", "positions", "embeddings")
    ),
    "mask of ones": Scenario(ways=("mask of ones",)),
    "mask of floats": Scenario(rows="right", ways=("mask of floats",)),
    "mask of bools": Scenario(rows="left", ways=("mask of bools",)),
    "mask with a hole": Scenario(rows="right", ways=(arguments.HOLE, "positions")),
    "mask of four axes": Scenario(rows="right", ways=("mask of four axes",)),
    "as a tuple": Scenario(rows="left", ways=("a tuple",)),
    "asked for all": Scenario(rows="right", ways=(arguments.MORE_OUTPUTS,)),
    "of few logits": Scenario("left", train=True, ways=(arguments.FEW, "positions")),
    "in two streams": Scenario("right", train=True, ways=(arguments.TWO_STREAMS,)),
    # In eval mode dropout must do nothing, whatever its rate.
    "eval, dropout set": Scenario(rows="left", dropout=DROPOUT),
    "full eval, dropout set": Scenario(dropout=DROPOUT),  # of images, which have no padding
    "one token": Scenario(length=1, labels=False),
    "long, padded": Scenario(rows="left", length=LONG),
}
_HOOKED = "a head with a hook"
# By the ways, and the rows.
TRAINING_CALLS: Mapping[str, tuple[Rows, tuple[str, ...]]] = {
    "ignoring a label": ("full", ("ignore_index",)),
    "counted": ("right", ("num_items_in_batch",)),
    "with shifted labels": ("full", ("shift_labels",)),
    "with a hook at its head": ("right", (_HOOKED,)),
    "with a hook at its head, ignoring a label": ("full", (_HOOKED, "ignore_index")),
    **{f"with {way}": ("right", (way,)) for way in sorted(OF_MODELS - {_HOOKED, BY_CONFIGURATION})},
    "as a tuple": ("right", ("a tuple",)),
}
# Arguments that a forward takes for ways to call it that are not about its first text.
BESIDE_TEXT = {
    arguments.BESIDE: "pixel_mask|bool_masked_pos|decoder_attention_mask",
    arguments.LARGER: "interpolate_pos_encoding",
}
# By the ending of a head: what it may be trained for, and settings that no model has by default.
_SEVERAL = {"problem_type": "multi_label_classification", "num_labels": 3}
OF_HEADS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "SequenceClassification": {
        "trained for a number": {"problem_type": "regression", "num_labels": 1},
        "trained for several classes": _SEVERAL,
    },
    "TokenClassification": {
        "without a bias": {"token_classification_bias": False},
        "with a rate of its own": {"classifier_dropout": 0.4},
        "with a rate of zero": {"classifier_dropout": 0.0},
    },
}
# How a model that calls transformers' attention interface is run: see `checks.interface`.
INTERFACE = ("eager", "flex_attention", "flash", "registered")
DECODERS = ("LMHeadModel", "ForCausalLM")
# Names of attention functions of transformers, and one that does not exist.
ATTENTIONS = "eager sdpa flash_attention_2 flash_attention_3 flex_attention misspelt".split()
# The ways of a model beside itself that are about a dtype, and the one that has to be asked for.
IN_DTYPES = dict.fromkeys(("float16", "autocast", "bfloat16"), "bfloat16") | {"float32": "float32"}


def select_cases(
    variant: Variant, checks: tuple[PartCheck, ...], plan: Plan | None = None
) -> tuple[Case, ...]:
    """Every case of `variant`.  Raises LookupError if it has no class to run."""
    if not variant.heads:
        raise LookupError(f"{variant.module} has no public model class")
    selection = _Selection(variant, checks, plan or Plan())
    left_out: list[str] = []
    for check in checks:
        for name in check.without:
            left_out.append(f" {name}")
    endings = tuple(left_out)
    selected = [case for case in selection.whole() if not case.name.endswith(endings)]
    if not all(check.works_with_hidden_states for check in checks):  # one case alone asks for them
        for place, case in enumerate(selected):
            scenario = replace(case.scenario, states=False)
            selected[place] = replace(case, scenario=scenario)
        selected += selection.numbers("float64", ROWS, "{}, all states")
    planted: list[Case] = []
    compared: list[Case] = []
    for case in selected:
        alike = planted if case.kind == "planted" else compared
        alike.append(case)
    no_lines = [frozenset[int]()] * len(compared)
    telling, rest = order_cases(compared, no_lines)
    first = [compared[place] for place in telling]
    others = [replace(compared[place], combines=True) for place in rest]
    return (*first, *planted, *others)


@dataclass(frozen=True, slots=True)
class _Selection:
    variant: Variant
    checks: tuple[PartCheck, ...]
    plan: Plan

    @property
    def head(self) -> str:
        return self.variant.heads[0]

    def case(self, name: str, kind: str, dtype: str = "float32", **how: Any) -> Case:
        """Of the main head, unless another is given."""
        head = how.pop("head", self.head)
        return Case(f"{head} {name}", kind, head, dtype, **how)

    def training(self, rows: Rows = "full", **more: Any) -> Scenario:
        return replace(training_scenario(self.checks, rows), **more)

    def whole(self) -> Iterator[Case]:
        as_python = "as Python runs it"
        yield self.case(as_python, as_python, scenario=self.training())
        yield from self.loading(self.head)
        for check in self.checks:
            yield self.case(f"effect of {check.part}", "effect", detail=check.part)
        yield from self.operations()
        yield from self.promises(self.head, read.read_of(self.variant).classes)
        for dtype in self.plan.dtypes:
            for rows in ROWS:
                for route, called in enumerate(("closest", "independent")):
                    yield from self.numbers(dtype, (rows,), f"{{}} {called}", route)
            for rows in EVAL_ROWS:
                yield compare_numbers(self.head, dtype, f"{rows} eval", Scenario(rows=rows))
        to_train = (
            self.placed,
            self.seen,
            self.guarded,
            self.ways_to_train,
            self.calls,
            self.interface,
        )
        to_set = (self.dropout, self.settings, self.lengths_and_heads, self.together)
        for select in (self.planted, *to_train, *to_set, self.usage, self.itself, self.declared):
            yield from select()
        changed = {*self.variant.heads[1:2], *read.changed_heads(self.variant)}
        for head in dict.fromkeys((*self.variant.heads[1:], *sorted(changed))):
            if head != self.head and (self.plan.full or head in changed):
                yield from self.other_head(head)
        for head in self.variant.heads:  # models on the meta device take no memory
            yield Case(f"{head} plans", "plans", head)

    def numbers(
        self, dtype: str, every: Sequence[Rows], label: str, route: int = 0, head: str = ""
    ) -> Iterator[Case]:
        """A training step in which all parts are active, with rows of each kind."""
        for rows in every:
            named = label.replace("{}", rows, 1)  # names of settings may have braces
            yield compare_numbers(head or self.head, dtype, named, self.training(rows), route)

    def placed(self) -> Iterator[Case]:
        """Images, videos and sounds at their places in the text, where the model has a way."""
        text = read.text_of(self.variant)
        heads = dict.fromkeys((self.head, *read.changed_heads(self.variant)))
        for way, name in arguments.PLACED.items():
            if f"def get_{name}_features" in text:
                for head in heads:
                    yield from self.with_placed(head, way)

    def with_placed(self, head: str, way: str) -> Iterator[Case]:
        training = self.training(ways=(way,))
        for dtype in self.plan.dtypes:
            yield compare_numbers(head, dtype, f"with {way}", training)
        for rows in ("right", "left"):
            padded = self.training(rows, ways=(way,))
            yield compare_numbers(head, "float64", f"{rows} with {way}", padded)
        dropping = replace(training, dropout=DROPOUT, checkpointing=None)
        yield compare_numbers(head, "float64", f"dropout with {way}", dropping)
        evaluated = Scenario(rows="left", ways=(way,))
        label = f"left eval with {way}"
        yield compare_numbers(head, "float64", label, evaluated)
        yield compare_numbers(head, "float64", f"{label}, both eager", evaluated, 2)

    def seen(self) -> Iterator[Case]:
        """Images that are padded, masked or larger, and a decoder's text that is padded."""
        text = read.text_of(self.variant)
        heads = (self.head, *self.variant.heads[1:2], *read.changed_heads(self.variant))
        for way, names in BESIDE_TEXT.items():
            for head in dict.fromkeys(heads) if re.search(names, text) else ():
                scenario = self.training(ways=(way,))
                yield compare_numbers(head, "float64", f"with {way}", scenario)

    def guarded(self) -> Iterator[Case]:
        """Configurations without which a changed class is never made, once for each head."""
        found = {}
        for made, setting in read.find_guards(self.variant):
            head = read.find_head_of(self.variant, made)
            found[head, setting.name] = setting
        for (head, _), setting in found.items():
            how: Any = {"changes": tuple(setting.changes.items()), "drawn": True}
            for dtype in self.plan.dtypes:
                every = ROWS[:2] if dtype == "float64" else ROWS[:1]
                for rows in every:
                    label = f"{rows} train, made under {setting.name}"
                    yield compare_numbers(head, dtype, label, self.training(rows), **how)

    def loading(self, head: str) -> Iterator[Case]:
        """Checkpoints load in both directions; a new model draws its weights like the parent."""
        yield Case(f"{head} checkpoints", "checkpoints", head)
        yield Case(f"{head} begins as the parent", "fresh", head)

    def other_head(self, head: str) -> Iterator[Case]:
        yield from self.loading(head)
        for dtype in self.plan.dtypes:
            yield from self.numbers(dtype, ROWS[:2], "{}", head=head)
        yield from self.numbers("float64", ["left"], "{} train", head=head)
        evaluated = Scenario(rows="left", dropout=DROPOUT)
        yield compare_numbers(head, "float64", "left eval, dropout set", evaluated)
        dropping = Scenario("right", train=True, dropout=DROPOUT)
        yield compare_numbers(head, "float64", "right dropout", dropping)
        yield from self.promises(head)

    # --- what parts ask for

    def operations(self) -> Iterator[Case]:
        """The variant's own operators, its products, and whether a recompute chooses again."""
        padded = Scenario(rows="right", train=True)
        for dtype in ("float32", "bfloat16"):
            yield self.case(f"{dtype} operators", "operators", dtype, scenario=padded)
        frozen = replace(padded, ways=(FROZEN,))
        yield self.case("operators with a frozen head", "operators", scenario=frozen)
        yield self.case("choices", "choices", scenario=replace(padded, checkpointing={}))
        yield self.case("work", "work", scenario=Scenario(labels=False))
        training = self.training(states=False, checkpointing=None)
        yield self.case("work in training", "work", scenario=training)
        if "bfloat16" in self.plan.dtypes:
            wide = self.training("right", autocast=True)
            yield self.case("work under autocast", "work", scenario=wide)

    def promises(self, head: str, changed: Sequence[str] = ()) -> Iterator[Case]:
        """What parts promise of one head; `changed` norms are held against the parent's alone."""
        promises: list[Promise] = []
        for check in self.checks:
            promises += check.promises
        has_norms = any(name.endswith(ALONE) for name in changed)
        if has_norms and NORMS_ALONE not in promises:
            promises.append(NORMS_ALONE)
        for promise in promises:
            if not promise.fits(head, head == self.head):
                continue
            how: Any = {"scenario": promise.scenario, "detail": promise.detail}
            yield self.case(promise.name, promise.kind, promise.dtype, head=head, **how)

    def planted(self) -> Iterator[Case]:
        for dtype in self.plan.dtypes:
            for check in self.checks:
                for error in check.planted_errors:
                    name = f"{dtype} planted: {error.name} ({check.part})"
                    how: Any = {"detail": f"{check.part}:{error.name}", "scenario": error.scenario}
                    yield self.case(name, "planted", dtype, **how)

    def interface(self) -> Iterator[Case]:
        """Each attention function, if the model calls transformers' attention interface."""
        if not any(check.by_flags for check in self.checks):
            how: Any = {"scenario": self.training("left"), "detail": "flash"}
            yield self.case("float64 left by flash", "interface", "float64", **how)
            return
        for detail in INTERFACE:
            for rows in ROWS[:3]:  # many models cannot keep packed texts apart
                how = {"scenario": self.training(rows), "detail": detail}
                yield self.case(f"float64 {rows} by {detail}", "interface", "float64", **how)
        how = {"scenario": Scenario(rows="left"), "detail": "eager"}
        yield self.case("float32 left by eager", "interface", **how)

    def dropout(self) -> Iterator[Case]:
        """Dropout of layers that draw in another order, so that no single step can be compared."""
        if all(check.same_rng_order for check in self.checks):
            return
        for rate in (name for name in read.defaults_of(self.variant) if "drop" in name):
            for rows in ROWS[:2]:
                how: Any = {"scenario": Scenario(rows=rows, labels=False), "detail": rate}
                yield self.case(f"{rows} drops by {rate}", "drops", **how)

    # --- ways to train and to call

    def ways_to_train(self) -> Iterator[Case]:
        padded = Scenario(rows="right", train=True)
        scenarios = {
            "without labels": Scenario(labels=False),
            "without labels, padded": Scenario(labels=False, rows="right"),
            "dropout": replace(padded, dropout=DROPOUT),
            "dropout, full": Scenario(train=True, dropout=DROPOUT),
            "accumulated": replace(padded, accumulate=2),
            "autocast": self.training(autocast=True),
            # With a mask, which autocast does not cast in every model.
            "autocast, padded": self.training("right", autocast=True),
            "autocast to float16": self.training(autocast=True, autocast_to=torch.float16),
        }
        if self.training().checkpointing is not None:
            scenarios["not checkpointed"] = padded
        for options in (options for check in self.checks for options in check.checkpointing):
            words = (getattr(value, "__name__", f"{n}={value}") for n, value in options.items())
            described = ", ".join(words)
            again = replace(padded, checkpointing=options)
            scenarios[f"checkpointed {described}".strip()] = again
            with_dropout = replace(again, dropout=DROPOUT)
            scenarios[f"checkpointed with dropout {described}".strip()] = with_dropout
        for name, scenario in scenarios.items():
            if not scenario.autocast or "bfloat16" in self.plan.dtypes:
                yield compare_numbers(self.head, "float32", name, scenario)
        name = "float32 attention weights"
        kind = "weights"
        yield self.case(name, kind, scenario=Scenario(rows="short", states=False))
        yield self.case(f"{name}, dropout", kind, scenario=replace(padded, dropout=DROPOUT))

    def calls(self) -> Iterator[Case]:
        for name, scenario in CALLS.items():
            yield compare_numbers(self.head, "float64", name, scenario)
        checkpointing = self.training().checkpointing
        for name, (rows, ways) in TRAINING_CALLS.items():
            scenario = Scenario(rows, True, 0.0, checkpointing, ways=ways)
            untied: Any = {"changes": (("tie_word_embeddings", False),)}  # else no head is alone
            changed = untied if LEARNING.keys() & set(ways) else {}
            yield compare_numbers(self.head, "float64", f"trained {name}", scenario, **changed)
        yield compare_numbers(self.head, "float64", "trained long", self.training(length=LONG))
        if "bfloat16" in self.plan.dtypes:
            more: Any = {"changes": (("max_position_embeddings", MANY + 8),)}
            long = self.training(length=MANY, states=False)
            yield compare_numbers(self.head, "bfloat16", "of many tokens", long, **more)
        for rows in ODD_ROWS:
            for dtype in ("float64", *({"bfloat16"} & {*self.plan.dtypes})):
                yield from self.numbers(dtype, [rows], "{} train")
        for rows in EVAL_ROWS:
            how: Any = {"scenario": Scenario(rows=rows, dropout=DROPOUT), "route": 2}
            yield compare_numbers(self.head, "float64", f"{rows} eval, both eager", **how)
            yield from self.numbers("float64", [rows], "{} train, both eager", 2)
        name = "float64 attention weights"
        asked = Scenario(rows="left", ways=(BY_CONFIGURATION,))
        yield self.case(f"{name} by configuration", "weights", "float64", scenario=asked)
        yield self.case(f"{name}, full", "weights", "float64")

    # --- other configurations

    def settings(self) -> Iterator[Case]:
        """Settings of checkpoints, and what changed lines read."""
        decoders = (head for head in self.variant.heads if head.endswith(DECODERS))
        decoder = next(decoders, self.head)
        for each in read.find_settings(self.variant):
            if "is_decoder" in each.changes:
                head = decoder
            else:
                head = read.head_for(self.variant, each)
            changes = tuple(each.changes.items())
            for case in self.of_setting(each, head):
                yield replace(case, changes=changes, drawn=each.drawn)

    def of_setting(self, setting: Setting, head: str) -> Iterator[Case]:
        last = setting.rows[-1]
        route = setting.route
        named = f": {setting.name}"
        in_bfloat16 = "bfloat16" in self.plan.dtypes
        is_crossed = "add_cross_attention" in setting.changes
        yield from self.numbers("float64", setting.rows, f"{{}} train{named}", route, head)
        scenarios = {}
        if in_bfloat16:
            autocast = self.training(last, autocast=True)
            yield compare_numbers(head, "float32", f"{last} autocast{named}", autocast, route)
        if not setting.drawn:
            scenarios[f"{last} eval, dropout set"] = Scenario(rows=last, dropout=DROPOUT)
            scenarios[f"{last} dropout"] = self.training(last, dropout=DROPOUT)
        if is_crossed:
            way = arguments.WHOLE_ENCODER
            scenarios[way] = self.training(ways=(way,))
            yield self.case(f"float64 attention weights{named}", "weights", "float64", head=head)
        for label, scenario in scenarios.items():
            yield compare_numbers(head, "float64", f"{label}{named}", scenario, route)
        if in_bfloat16:
            yield from self.numbers("bfloat16", [last], f"{{}} train{named}", head=head)
        # In float32 too: only there does GPT-2's upcast change anything.
        rate = DROPOUT if all(check.same_rng_order for check in self.checks) else 0.0
        eager = self.training(last, dropout=rate)
        yield compare_numbers(head, "float32", f"{last} eager{named}", eager, 2)
        how: Any = {"head": head, "route": route, "scenario": Scenario("left", labels=False)}
        if setting.changes.get("is_decoder") and not is_crossed:
            yield self.case(f"generates{named}", "generated", detail="greedy", **how)
        if not setting.drawn and head.endswith(DECODERS):
            how["scenario"] = Scenario(labels=False)
            yield self.case(f"cache{named}", "cache", "float64", **how)
            how["detail"] = "flash"
            yield self.case(f"by flash{named}", "interface", "float64", **how)

    def lengths_and_heads(self) -> Iterator[Case]:
        """Texts longer than each integer of the changed lines; what changed heads read."""
        for number in read.read_of(self.variant).lengths:
            scenario = self.training("right", length=number + 3)
            more: Any = {"changes": (("max_position_embeddings", number + 8),)}
            label = f"longer than {number}"
            yield compare_numbers(self.head, "float64", label, scenario, **more)
        for head in read.changed_heads(self.variant):
            for ending, settings in OF_HEADS.items():
                if not head.endswith(ending):
                    continue
                for name, changes in settings.items():
                    training = self.training("right", dropout=DROPOUT)
                    more = {"changes": tuple(changes.items())}
                    yield compare_numbers(head, "float64", name, training, **more)

    def together(self) -> Iterator[Case]:
        """Two settings, a way to call and dropout at a time: what each alone does not show."""
        draw = random.Random(self.variant.name)
        calls = list(TRAINING_CALLS.values())
        every = read.find_settings(self.variant)
        settings = [setting for setting in every if FRACTION not in setting.changes]
        if not settings:
            return
        for number in range(TOGETHER):
            pair = draw.sample(settings, min(2, len(settings)))
            changes: dict[str, Any] = {}
            for setting in pair:
                changes.update(setting.changes)
            rows, ways = draw.choice(calls)
            dropout = draw.choice((0.0, DROPOUT))
            length = draw.choice((None, LONG))
            scenario = self.training(rows, ways=ways, dropout=dropout, length=length)
            route = max(setting.route for setting in pair)
            more: Any = {"changes": tuple(changes.items()), "drawn": True}
            name = f"together {number}"
            yield compare_numbers(self.head, "float64", name, scenario, route, **more)

    # --- usage, and the variant against itself

    def usage(self) -> Iterator[Case]:
        full = self.plan.full
        yield from self.read_by_cache()
        ways = ["greedy", "static cache"]
        backends = ["aot_eager"]
        suffixes: dict[Rows, str] = {"full": ""}
        if full:
            ways += ["sampled", "beams"]
            backends.append("inductor")
            suffixes["packed"] = ", packed"
        how: Any = {"scenario": Scenario(labels=False), "detail": ways[0]}
        yield self.case(f"generates: {ways[0]}, full", "generated", **how)  # also without a text
        for way in ways:
            how = {"scenario": Scenario(rows="left", labels=False), "detail": way}
            yield self.case(f"generates: {way}", "generated", **how)
        is_declared = any(check.attentions is not None for check in self.checks)
        for name in ATTENTIONS:
            # The parent's own flex attention compiles for seconds, and is then refused on a CPU.
            if name != "flex_attention" or is_declared or full:
                yield self.case(f"attn_implementation {name}", "attention", detail=name)
        for backend in backends:
            for rows, suffix in suffixes.items():
                how = {"scenario": self.training(rows), "detail": backend}
                yield self.case(f"compiled by {backend}{suffix}", "compiled", **how)

    def read_by_cache(self) -> Iterator[Case]:
        """A text in pieces, by each attention and cache, full and behind padding."""
        for how in ("", "eager", "flash"):
            for kind in ("", "static"):
                for rows in EVAL_ROWS:
                    behind = "behind padding" if rows == "left" else ""
                    name = " ".join(filter(None, (how, kind, "cache", behind)))
                    asked: Any = {"scenario": Scenario(rows=rows, labels=False), "detail": kind}
                    yield self.case(name, "cache", "float64", attention=how, **asked)

    def itself(self) -> Iterator[Case]:
        for way in WAYS:
            if way not in IN_DTYPES or IN_DTYPES[way] in self.plan.dtypes:
                yield self.case(f"itself: {way}", "itself", "float64", detail=way)

    def declared(self) -> Iterator[Case]:
        """What differs on purpose: equal at its neutral point, and right with each setting."""
        if self.variant.equal_if:
            for dtype in self.plan.dtypes:
                for case in self.numbers(dtype, ROWS, "{} at its neutral point"):
                    yield replace(case, neutral=True)
        names = {name.removeprefix(SETTING) for name, _ in self.variant.differs}
        settings = read.find_settings(self.variant)
        own: frozenset[str] = frozenset()
        if any(setting.drawn for setting in settings):
            own = Pair(self.variant, self.head).own_settings

        def is_about_it(name: str) -> bool:
            return name in names or name.rpartition(".")[2] in own

        for setting in settings:
            if not any(map(is_about_it, setting.changes)):
                continue
            changes = tuple(setting.changes.items())
            for case in (*self.itself(), *self.read_by_cache()):
                name = f"{case.name}: {setting.name}"
                yield replace(case, name=name, changes=changes, drawn=True)


# --- order

# What a case of each kind costs, in steps of a tiny model.
COSTS: Mapping[str, float] = {
    "weights": 1.2,
    "cache": 2,
    "effect": 2,
    "choices": 3,
    "operators": 3,
    "work": 2,
    "loss beside logits": 2,
    "attention": 3,
    "generated": 4,
    "checkpoints": 4,
    "fresh": 3,
    "drops": 2,
    "compiled": 60,
    "itself": 3,
}
# What a trait counts more than another setting: the first case of a kind, of a head and of what it
# sees shows what no other can.
WEIGHTS: Mapping[str, int] = {"kind": 8, "head": 8, "placed": 8}
NARROW = 3  # times as much: the parent's noise is measured


def cost_of(case: Case) -> float:
    return COSTS.get(case.kind, 1.0) * (NARROW if case.dtype == "bfloat16" else 1)


def order_cases(
    cases: Sequence[Case], paths: Sequence[frozenset[int]]
) -> tuple[list[int], list[int]]:
    """The places of those that bring something new, and of the rest; `paths` are their lines."""
    traits = [_traits(case, path) for case, path in zip(cases, paths, strict=True)]
    costs = [cost_of(case) for case in cases]
    met: set[tuple[object, ...]] = set()
    telling: list[int] = []
    left = list(range(len(cases)))

    def brings(place: int) -> int:
        return sum(WEIGHTS.get(str(trait[0]), 1) for trait in traits[place] - met)

    while left:
        best = max(left, key=lambda place: (brings(place) / costs[place], -place))
        if not brings(best):  # an expensive case may bring more
            best = max(left, key=lambda place: (brings(place), -place))
        if not brings(best):
            break
        telling.append(best)
        left.remove(best)
        met |= traits[best]
    left.sort(key=lambda place: (costs[place], place))
    return telling, left


def _traits(case: Case, path: frozenset[int]) -> frozenset[tuple[object, ...]]:
    asked = case.scenario
    # Where there is no text, nothing is padded: a case of full rows is another one.
    is_plain = case.kind == "numbers" and asked.rows == "full"
    own = {
        ("head" if is_plain else "class", case.head),
        ("kind", case.kind, asked.rows == "full"),
        ("detail", case.kind, case.detail),
        ("configuration", repr(case.changes)),
        ("rows", asked.rows, asked.train),
        ("route", case.route),
        ("dtype", case.dtype),
        ("dropout", asked.train, bool(asked.dropout)),
        ("checkpointing", repr(asked.checkpointing)),
        ("states", asked.states, asked.train),
        ("length", asked.length),
        ("labels", asked.labels),
        ("autocast", asked.autocast),
        ("accumulated", asked.accumulate),
    }
    for way in asked.ways:
        own.add(("placed", way, case.head) if way in arguments.PLACED else ("way", way))
    return frozenset({*own, *(("line", n) for n in path)})
