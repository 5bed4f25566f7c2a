"""Cases that use the model: load it, generate, choose an attention, compile, keep its fast path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from patchgen.verify.cases.case import DROPOUT, ROWS, Case, compare_numbers
from patchgen.verify.checks.itself import WAYS
from patchgen.verify.configs.read import find_settings
from patchgen.verify.parts.combine import training_scenario
from patchgen.verify.parts.part_check import PartCheck, Scenario
from patchgen.verify.variants import SETTING, Plan, Variant

# The ways that are about a dtype, and the one that has to be asked for.
IN_DTYPES = {
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "bfloat16",
    "autocast": "bfloat16",
}
PartChecks = tuple[PartCheck, ...]
# Names of attention functions of transformers, and one that does not exist.
CACHED_BY = ("eager", "flash")
ATTENTIONS = (
    "eager",
    "sdpa",
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
    "misspelt",
)


def load_and_initialize(head: str) -> Iterator[Case]:
    """Checkpoints load in both directions, and a new model draws its weights like the parent."""
    yield Case(f"{head} checkpoints", "checkpoints", head)
    yield Case(f"{head} begins as the parent", "fresh", head)


def hold_against_itself(head: str, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Each other way of running that must give the same."""
    for way in WAYS:
        if way in IN_DTYPES and IN_DTYPES[way] not in dtypes:
            continue
        yield Case(f"{head} itself: {way}", "itself", head, "float64", detail=way)


def check_declared(variant: Variant, checks: PartChecks, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """What differs on purpose: equal at its neutral point, and right with each setting of it."""
    head, names = variant.heads[0], [name for name, _ in variant.differs]
    if variant.equal_if:
        for dtype in dtypes:
            for rows in ROWS:
                scenario = training_scenario(checks, rows)
                case = compare_numbers(head, dtype, f"{rows} at its neutral point", scenario)
                yield replace(case, neutral=True)
    for setting in find_settings(variant):
        if any(f"{SETTING}{name}" in names for name in setting.changes):
            for case in (*hold_against_itself(head, dtypes), *read_by_cache(head)):
                changes = tuple(setting.changes.items())
                name = f"{case.name}: {setting.name}"
                yield replace(case, name=name, changes=changes, whole=True, drawn=True)


def use_model(head: str, checks: PartChecks, plan: Plan) -> Iterator[Case]:
    """The cache, generation, each attention, and `torch.compile`."""
    yield from _generate(head, plan)
    yield from _choose_attention(head, checks, plan)
    yield from _compile(head, checks, plan)


def read_by_cache(head: str) -> Iterator[Case]:
    """A text in pieces, by each attention and cache, full and behind padding."""
    for how in ("", *CACHED_BY):
        for kind in ("", "static"):
            for rows in ("full", "left"):
                words = (head, how, kind, "cache", "behind padding" if rows == "left" else "")
                case = Case(" ".join(filter(None, words)), "cache", head, "float64", detail=kind)
                yield replace(case, scenario=Scenario(rows=rows, labels=False), attention=how)


def _generate(head: str, plan: Plan) -> Iterator[Case]:
    yield from read_by_cache(head)
    prompt = Scenario(rows="left", labels=False)
    for way in ("greedy", "sampled", "beams", "static cache") if plan.full else ("greedy",):
        yield Case(f"{head} generates: {way}", "generated", head, scenario=prompt, detail=way)


def _choose_attention(head: str, checks: PartChecks, plan: Plan) -> Iterator[Case]:
    is_declared = any(check.attentions is not None for check in checks)
    for name in ATTENTIONS:
        # The parent's own flex attention compiles for seconds, and is then refused on a CPU.
        if name == "flex_attention" and not is_declared and not plan.full:
            continue
        yield Case(f"{head} attn_implementation {name}", "attention", head, detail=name)


def _compile(head: str, checks: PartChecks, plan: Plan) -> Iterator[Case]:
    training, packed = training_scenario(checks), training_scenario(checks, "packed")
    for backend in ("aot_eager", "inductor") if plan.full else ("aot_eager",):
        name = f"{head} compiled by {backend}"
        yield Case(name, "compiled", head, detail=backend, scenario=training)
        if plan.full:
            yield Case(f"{name}, packed", "compiled", head, detail=backend, scenario=packed)


def keep_fast_path(head: str, checks: PartChecks, plan: Plan) -> Iterator[Case]:
    """Ways to train in which the variant must call as few kernels as in the plain step."""
    for rows in ROWS if "bfloat16" in plan.dtypes else ():
        training = training_scenario(checks, rows)
        recipes = {
            "autocast": ("float32", replace(training, autocast=True)),
            "bfloat16": ("bfloat16", training),
            "dropout": ("bfloat16", replace(training, dropout=DROPOUT)),
        }
        for recipe, (dtype, scenario) in recipes.items():
            name = f"{head} pace of {recipe}, {rows}"
            yield Case(name, "pace", head, dtype, scenario=scenario, detail=recipe)
    # A mixture has more to compute than the parent's FFN.
    if all(check.part != "moe" for check in checks):
        training = replace(training_scenario(checks), states=False, checkpointing=None)
        yield Case(f"{head} work", "work", head, scenario=Scenario(labels=False))
        yield Case(f"{head} work in training", "work", head, scenario=training)
    # Only in a full run: it traces both sides for three lengths.
    if plan.full:
        name, kind = f"{head} compiled over lengths", "compiled over lengths"
        yield Case(name, kind, head, scenario=training_scenario(checks))
