"""The matrix: what is run for a variant, decided from its text and its claims before any model is built.

A case that turns out to have nothing to compare (a head without a loss, a parent that mixes packed rows) is a result
of its own, `NONE` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchgen.verify.configs.published import Setting
from patchgen.verify.configs.settings import changed_heads, settings_of
from patchgen.verify.inputs.calls import BY_CONFIGURATION, WHOLE_ENCODER
from patchgen.verify.parts.combine import trained
from patchgen.verify.parts.part_check import Claim, Rows, Scene
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Subject

ROWS: tuple[Rows, ...] = ("full", "right", "left", "packed")
EVAL_ROWS: tuple[Rows, ...] = ("full", "left")
ROUTES = ("closest", "independent")
DROPOUT = 0.2
LONG = 37  # tokens: more than any window, and scores that are larger than what they are made of
RATES = ("attention_probs_dropout_prob", "hidden_dropout_prob", "attention_dropout")
# Names of attention that transformers has, and one that nobody has.
ATTENTIONS = (
    "eager",
    "sdpa",
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
    "misspelt",
)
# How a model that calls transformers' interface is run: `checks.interface`.
INTERFACE = ("eager", "flex_attention", "flash", "registered")


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to find out.  `kind` is the name of a function in `checks`."""

    name: str
    kind: str
    head: str
    dtype: str = "float32"
    route: int = 0  # 0: the closest, 1: the most independent, 2: both sides eager
    scene: Scene = Scene()
    changes: tuple[
        tuple[str, Any], ...
    ] = ()  # of the configuration: the first it must have, others it may
    detail: str = ""  # of its kind: the name of a plant, of an attention, of a compiler
    whole: bool = (
        False  # all of `changes` are made, whether the configuration lists such names or not
    )
    drawn: bool = (
        False  # nobody says that the model takes `changes`: what is refused is not compared
    )


QUICK = Plan()
# Of a short plan: what a model of any kind is held against in every part.
SHORT_ROWS, SHORT_DTYPES = ROWS[:3], ("float64", "float32")


def cases(subject: Subject, claims: tuple[Claim, ...], plan: Plan = QUICK) -> tuple[Case, ...]:
    """Every case of `subject`, the cheap ones that say most first.

    Raises LookupError where it has no class to run: nothing would be shown.
    """
    if not subject.heads:
        raise LookupError(f"{subject.module} has no public model class")
    main = subject.heads[0]
    if plan.short:
        return tuple(_without_states(_short(main, claims, plan), claims))
    made = [
        *_loading(main),
        *_effects(main, claims),
        *_numbers(main, claims, plan.dtypes),
        *_plants(main, claims, plan.dtypes),
        *_scenes(main, claims, plan.dtypes),
        *_ways(main, claims),
        *_interface(main, claims),
        *_pace(main, claims, plan),
        *_flash(subject, claims),
        *_settings(subject, claims, plan.dtypes),
        *_published(subject, claims),
        *_use(main, claims, plan),
    ]
    for head in _others(subject, plan):
        made += [*_loading(head), *_base(head, claims, plan.dtypes)]
    made += [
        Case(f"{head} plans", "plans", head) for head in subject.heads
    ]  # of no model that takes memory
    return (*_without_states(made, claims), *_states(main, claims))


def _without_states(made: Iterable[Case], claims: tuple[Claim, ...]) -> Iterator[Case]:
    """No hidden states are asked for where a part would not be at work."""
    at_work = all(claim.with_states for claim in claims)
    for case in made:
        yield case if at_work else replace(case, scene=replace(case.scene, states=False))


def _states(head: str, claims: tuple[Claim, ...]) -> Iterator[Case]:
    """Hidden states, which other cases leave out."""
    if all(claim.with_states for claim in claims):
        return
    for rows in ROWS:
        yield Case(
            f"{head} float64 {rows}, all states",
            "numbers",
            head,
            "float64",
            scene=trained(claims, rows),
        )


def _others(subject: Subject, plan: Plan) -> tuple[str, ...]:
    """Heads beside the main one: the base model's, and those that a changed line stands in."""
    wanted = {*subject.heads[1:2], *changed_heads(subject)}
    return tuple(head for head in subject.heads[1:] if plan.full or head in wanted)


def _short(head: str, claims: tuple[Claim, ...], plan: Plan) -> Iterator[Case]:
    dtypes = tuple(dtype for dtype in plan.dtypes if dtype in SHORT_DTYPES)
    yield from _loading(head)
    yield from _effects(head, claims)
    for case in _numbers(head, claims, dtypes):
        if case.route == 0 and case.scene.train and case.scene.rows in SHORT_ROWS:
            yield case
    yield from _plants(head, claims, dtypes[-1:])


def _loading(head: str) -> Iterator[Case]:
    yield Case(f"{head} checkpoints", "checkpoints", head)
    yield Case(f"{head} begins as the parent", "fresh", head)


def _effects(head: str, claims: tuple[Claim, ...]) -> Iterator[Case]:
    for claim in claims:
        yield Case(f"{head} effect of {claim.part}", "effect", head, detail=claim.part)
        for how in (how for how in claim.checkpointing if "context_fn" in how):
            for length in (0, LONG):
                name = f"{head} keeps products{', long' if length else ''}"
                yield Case(
                    name, "kept", head, scene=Scene(train=True, checkpointing=how, length=length)
                )


def _numbers(head: str, claims: tuple[Claim, ...], dtypes: tuple[str, ...]) -> Iterator[Case]:
    """All in training, where every part is at work; in eval, where some do nothing, a few."""
    for dtype in dtypes:
        for rows in ROWS:
            for route, called in enumerate(ROUTES):
                yield Case(
                    f"{head} {dtype} {rows} {called}",
                    "numbers",
                    head,
                    dtype,
                    route,
                    trained(claims, rows),
                )
        for rows in EVAL_ROWS:
            yield Case(
                f"{head} {dtype} {rows} eval", "numbers", head, dtype, scene=Scene(rows=rows)
            )


def _plants(head: str, claims: tuple[Claim, ...], dtypes: tuple[str, ...]) -> Iterator[Case]:
    for dtype in dtypes:
        for claim in claims:
            for plant in claim.plants:
                name = f"{head} {dtype} planted: {plant.name} ({claim.part})"
                yield Case(
                    name,
                    "planted",
                    head,
                    dtype,
                    detail=f"{claim.part}:{plant.name}",
                    scene=plant.scene,
                )


def _scenes(head: str, claims: tuple[Claim, ...], dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Ways to train, each along the closest route."""
    scenes = {
        "without labels": Scene(labels=False),
        "without labels, padded": Scene(labels=False, rows="right"),
        "dropout": Scene(rows="right", train=True, dropout=DROPOUT),
        "accumulated": Scene(rows="right", train=True, accumulate=2),
        "autocast": replace(trained(claims), autocast=True),
        # With a mask, which autocast does not cast for everybody.
        "autocast, padded": replace(trained(claims, "right"), autocast=True),
    }
    if trained(claims).checkpointing is not None:
        scenes["not checkpointed"] = Scene(rows="right", train=True)
    ways = {_told(how): how for claim in claims for how in claim.checkpointing}
    for told, kwargs in ways.items():
        base = Scene(rows="right", train=True, checkpointing=kwargs)
        scenes[f"checkpointed {told}".strip()] = base
        scenes[f"checkpointed with dropout {told}".strip()] = replace(base, dropout=DROPOUT)
    for name, scene in scenes.items():
        if scene.autocast and "bfloat16" not in dtypes:
            continue
        yield Case(f"{head} float32 {name}", "numbers", head, scene=scene)
    yield Case(f"{head} float32 attention weights", "weights", head, scene=Scene(rows="right"))


def _told(how: Mapping[str, Any]) -> str:
    """The options of checkpointing in words."""
    return ", ".join(getattr(value, "__name__", f"{name}={value}") for name, value in how.items())


# By name: rows, whether in training, and the ways, each in the widest dtype.
WAYS: Mapping[str, Scene] = {
    "typed": Scene(rows="right", ways=("types of tokens",)),
    "embedded": Scene(rows="right", ways=("embeddings",)),
    "placed": Scene(ways=("positions",)),
    "placed, padded": Scene(rows="left", ways=("positions",)),
    "typed, placed, embedded": Scene(
        rows="left", ways=("types of tokens", "positions", "embeddings")
    ),
    "mask of floats": Scene(rows="right", ways=("mask of floats",)),
    "mask of floats, left": Scene(rows="left", ways=("mask of floats",)),
    "mask of bools": Scene(rows="left", ways=("mask of bools",)),
    "mask of four axes": Scene(rows="right", ways=("mask of four axes",)),
    "as a tuple": Scene(rows="left", ways=("a tuple",)),
    "eval, dropout set": Scene(rows="left", dropout=DROPOUT),
    "one token": Scene(length=1, labels=False),
    "long": Scene(length=LONG),
    "long, padded": Scene(rows="left", length=LONG),
}
TRAINED_WAYS: Mapping[str, Scene] = {
    "ignoring a label": Scene(train=True, ways=("ignore_index",)),
    "counted": Scene(rows="right", train=True, ways=("num_items_in_batch",)),
    "with a hook at its head": Scene(rows="right", train=True, ways=("a head with a hook",)),
    "with a hook at its head, ignoring a label": Scene(
        train=True, ways=("a head with a hook", "ignore_index")
    ),
    "with a bias at its head": Scene(rows="right", train=True, ways=("a head with a bias",)),
    "as a tuple": Scene(rows="right", train=True, ways=("a tuple",)),
    "long": Scene(train=True, length=LONG),
}


def _ways(head: str, claims: tuple[Claim, ...]) -> Iterator[Case]:
    """Other ways to call the model, those to train it with every part at work."""
    for name, scene in WAYS.items():
        yield Case(f"{head} float64 {name}", "numbers", head, "float64", scene=scene)
    for name, scene in TRAINED_WAYS.items():
        scene = replace(scene, checkpointing=trained(claims).checkpointing)
        yield Case(f"{head} float64 trained {name}", "numbers", head, "float64", scene=scene)
    for rows in EVAL_ROWS:
        scene = Scene(rows=rows, dropout=DROPOUT)
        yield Case(f"{head} float64 {rows} eval, both eager", "numbers", head, "float64", 2, scene)
        yield Case(
            f"{head} float64 {rows} train, both eager",
            "numbers",
            head,
            "float64",
            2,
            trained(claims, rows),
        )
    asked = Scene(rows="left", ways=(BY_CONFIGURATION,))
    yield Case(
        f"{head} float64 attention weights by configuration",
        "weights",
        head,
        "float64",
        scene=asked,
    )
    yield Case(f"{head} float64 attention weights, full", "weights", head, "float64")


def _interface(head: str, claims: tuple[Claim, ...]) -> Iterator[Case]:
    """By each function that a model may be asked for, where it calls transformers' interface."""
    if not any(claim.by_flags for claim in claims):
        return
    for how in INTERFACE:
        for rows in ROWS[:3]:
            scene = trained(claims, rows)
            yield Case(
                f"{head} float64 {rows} by {how}",
                "interface",
                head,
                "float64",
                scene=scene,
                detail=how,
            )
    scene = Scene(rows="left")
    yield Case(
        f"{head} float32 left by eager", "interface", head, "float32", scene=scene, detail="eager"
    )


def _pace(head: str, claims: tuple[Claim, ...], plan: Plan) -> Iterator[Case]:
    """Recipes of training, in each of which a variant is to keep to its fast path."""
    for rows in ROWS if "bfloat16" in plan.dtypes else ():
        scene = trained(claims, rows)
        recipes = {
            "autocast": ("float32", replace(scene, autocast=True)),
            "bfloat16": ("bfloat16", scene),
            "dropout": ("bfloat16", replace(scene, dropout=DROPOUT)),
        }
        for recipe, (dtype, made) in recipes.items():
            yield Case(
                f"{head} pace of {recipe}, {rows}", "pace", head, dtype, scene=made, detail=recipe
            )
    if plan.full:  # it traces both sides
        yield Case(
            f"{head} compiled over lengths", "compiled over lengths", head, scene=trained(claims)
        )


def _flash(subject: Subject, claims: tuple[Claim, ...]) -> Iterator[Case]:
    """Of layers without padding: what stands there, and rates of dropout, drawn in an order of its own."""
    if all(claim.same_draws for claim in claims):
        return
    head = subject.heads[0]
    for rows in ROWS[1:3] if any(claim.part == "flash" for claim in claims) else ():
        yield Case(
            f"{head} {rows} gives zeros at padding",
            "zeros",
            head,
            "float64",
            scene=Scene(rows=rows),
        )
    for rate in RATES:
        for rows in ("full", "right"):
            scene = Scene(rows=rows, labels=False)
            yield Case(f"{head} {rows} drops by {rate}", "drops", head, scene=scene, detail=rate)


def _settings(
    subject: Subject, claims: tuple[Claim, ...], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """Other settings of the same class, where its module knows of them."""
    main = subject.heads[0]
    decoder = next(
        (head for head in subject.heads if head.endswith(("LMHeadModel", "ForCausalLM"))), main
    )
    settings = {
        "sliding_window": (main, (("sliding_window", 5),)),
        "add_cross_attention": (decoder, (("add_cross_attention", True), ("is_decoder", True))),
    }
    for setting in subject.settings:
        head, changes = settings[setting]
        for dtype in dtypes[:2]:
            for rows in ROWS[:3]:
                for route, path in enumerate(ROUTES):
                    name = f"{head} {dtype} {rows} {path}, {setting}"
                    yield Case(name, "numbers", head, dtype, route, trained(claims, rows), changes)


def _published(subject: Subject, claims: tuple[Claim, ...]) -> Iterator[Case]:
    """Configurations of checkpoints, and what parts and changed lines read: in the widest dtype, which sees most."""
    for setting in settings_of(subject):
        head, last = _head_for(subject, setting), setting.rows[-1]
        made = Case(
            "",
            "numbers",
            head,
            "float64",
            setting.route,
            Scene(),
            tuple(setting.changes.items()),
            whole=True,
        )
        made = replace(made, drawn=setting.drawn)
        scenes = {f"{rows} train": trained(claims, rows) for rows in setting.rows}
        if not setting.drawn:
            scenes[f"{last} eval, dropout set"] = Scene(rows=last, dropout=DROPOUT)
            scenes[f"{last} dropout"] = replace(trained(claims, last), dropout=DROPOUT)
        if "add_cross_attention" in setting.changes:
            scenes[WHOLE_ENCODER] = replace(trained(claims), ways=(WHOLE_ENCODER,))
        for told, scene in scenes.items():
            yield replace(made, name=f"{head} float64 {told}: {setting.name}", scene=scene)
        # In float32, which some insist on (GPT-2's upcast).
        name, eager = f"{head} float32 {last} eager: {setting.name}", trained(claims, last)
        yield replace(made, name=name, dtype="float32", route=2, scene=eager)
        if setting.changes == {"is_decoder": True}:
            scene = Scene(rows="left", labels=False)
            name = f"{head} generates: {setting.name}"
            yield replace(
                made, name=name, kind="generated", dtype="float32", scene=scene, detail="greedy"
            )
            yield replace(
                made, name=f"{head} cache: {setting.name}", kind="cache", scene=Scene(labels=False)
            )


def _head_for(subject: Subject, setting: Setting) -> str:
    """Of a setting that makes a decoder of the model, the decoder's."""
    main = subject.heads[0]
    if "is_decoder" not in setting.changes:
        return main
    return next(
        (head for head in subject.heads if head.endswith(("LMHeadModel", "ForCausalLM"))), main
    )


def _use(head: str, claims: tuple[Claim, ...], plan: Plan) -> Iterator[Case]:
    yield Case(f"{head} cache", "cache", head, "float64", scene=Scene(labels=False))
    yield Case(
        f"{head} static cache", "cache", head, "float64", scene=Scene(labels=False), detail="static"
    )
    ways = ("greedy", "sampled", "beams", "static cache") if plan.full else ("greedy",)
    for way in ways:
        yield Case(
            f"{head} generates: {way}",
            "generated",
            head,
            scene=Scene(rows="left", labels=False),
            detail=way,
        )
    declared = any(claim.attentions is not None for claim in claims)
    for name in ATTENTIONS:
        if name == "flex_attention" and not declared and not plan.full:
            continue  # the parent's own, which is compiled for seconds to be refused on a CPU
        yield Case(f"{head} attn_implementation {name}", "attention", head, detail=name)
    for backend in ("aot_eager", "inductor") if plan.full else ("aot_eager",):
        yield Case(
            f"{head} compiled by {backend}", "compiled", head, detail=backend, scene=trained(claims)
        )
        if plan.full:
            packed = trained(claims, "packed")
            yield Case(
                f"{head} compiled by {backend}, packed",
                "compiled",
                head,
                detail=backend,
                scene=packed,
            )


def _base(head: str, claims: tuple[Claim, ...], dtypes: tuple[str, ...]) -> Iterator[Case]:
    for dtype in dtypes:
        for rows in ROWS[:2]:
            yield Case(
                f"{head} {dtype} {rows}", "numbers", head, dtype, scene=trained(claims, rows)
            )
    left = {
        "train": trained(claims, "left"),
        "eval, dropout set": Scene(rows="left", dropout=DROPOUT),
    }
    for told, scene in left.items():
        yield Case(f"{head} float64 left {told}", "numbers", head, "float64", scene=scene)
