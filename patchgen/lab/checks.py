"""How each kind of case is decided.  A check never raises for what a model does wrong: that is a FAIL."""

from __future__ import annotations

import functools
import inspect
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.lab.cases import Case
from patchgen.lab.claim import Claim, Observation, Plant, Route, Scene, reload, strictly_loaded
from patchgen.lab.pair import Pair, quiet
from patchgen.lab.parity import Difference, differences, in_noises
from patchgen.lab.result import Result, Status
from patchgen.lab.specimen import CannotBuild, takes
from patchgen.lab.step import observe_step, takes_cache
from patchgen.lab.subject import Subject
from patchgen.lab.tolerance import MARGIN, NARROW, REORDERED, Bound
from patchgen.lab.wide import widened

NEW_TOKENS = 5
SPLIT = 9  # of a text of 13 tokens: what is read at once before the rest comes token by token


class Nothing(Exception):
    """There is nothing to compare; says why."""


@dataclass(frozen=True)
class Bench:
    """Where the cases of one variant are run: pairs are built once and kept."""

    subject: Subject
    device: str = "cpu"

    @functools.cached_property
    def _pairs(self) -> dict[Any, Pair]:
        return {}

    def pair(self, case: Case) -> Pair:
        """The two sides of the case's class."""
        key = (case.head, case.changes)
        if key not in self._pairs:
            self._pairs[key] = Pair(self.subject, case.head, self.device, dict(case.changes))
        return self._pairs[key]

    def run(self, case: Case) -> Result:
        """The result of one case."""
        begun = time.perf_counter()
        result = Result(self.subject.name, case.name, "FAIL")
        try:
            if case.changes:
                case = _possible(self.pair(replace(case, changes=())), case)
            result = replace(result, **CHECKS[case.kind](self, self.pair(case), case))
        except (Nothing, CannotBuild) as reason:
            result = replace(result, status="NONE", note=str(reason))
        except Exception as error:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
            result = replace(result, note=f"{type(error).__name__}: {' '.join(str(error).split())[:400]}{where}")
        return replace(result, seconds=round(time.perf_counter() - begun, 3))

    # --- what a bound stands beside

    @functools.cached_property
    def _smallest(self) -> dict[Any, float]:
        return {}

    def smallest_planted(self, case: Case) -> float | None:
        """The smallest error planted in this class and dtype that fits it; None where none does."""
        main = replace(case, head=self.subject.heads[0], changes=())
        key = (main.head, case.dtype)
        if key not in self._smallest:
            pair = self.pair(main)
            found = [planted(pair, plant, _dtype(case)) for claim in pair.claims for plant in claim.plants]
            self._smallest[key] = min((apart for apart in found if apart is not None), default=math.nan)
        smallest = self._smallest[key]
        return None if math.isnan(smallest) else smallest


def _possible(pair: Pair, case: Case) -> Case:
    """The case with those of its changes that the configuration knows.

    Raises Nothing where it does not know the first, or is as the case wants it anyway.
    """
    config = pair.config()
    known = {name for name in config.to_dict() if name not in config.sub_configs}
    (first, value), *_ = case.changes
    if first not in known or config.is_encoder_decoder:
        raise Nothing(f"the configuration has no {first}")
    if getattr(config, first) == value:
        raise Nothing(f"{first} is {value} anyway")
    if first == "add_cross_attention" and "encoder_hidden_states" not in takes(pair.parent_class):
        raise Nothing("its forward takes no encoder_hidden_states")
    return replace(case, changes=tuple((name, v) for name, v in case.changes if name in known))


def _dtype(case: Case) -> torch.dtype:
    return getattr(torch, case.dtype)


# --- numbers


def compare(
    pair: Pair, route: Route, dtype: torch.dtype, scene: Scene, seen: Observation, *, weights: bool = False
) -> tuple[Difference, ...]:
    """The parent's observation against `seen`, in noises where the dtype is narrow, the largest first."""
    reference = pair.shown(pair.parent_sees(route, dtype, scene, weights=weights), scene)
    found = differences(reference, pair.shown(seen, scene))
    if not is_narrow(dtype, scene):
        return found
    return in_noises(found, *(_noise(pair, each, dtype, scene, weights) for each in pair.routes))


def _noise(pair: Pair, route: Route, dtype: torch.dtype, scene: Scene, weights: bool) -> tuple[Difference, ...]:
    """What the narrow dtype does to the parent along `route`."""
    wide = pair.parent_sees(route, torch.float32, replace(scene, autocast=False), weights=weights)
    narrow = pair.parent_sees(route, dtype, scene, weights=weights)
    return differences(pair.shown(wide, scene), pair.shown(narrow, scene))


def is_narrow(dtype: torch.dtype, scene: Scene) -> bool:
    return dtype in NARROW or scene.autocast


def _allowed(bound: Bound, dtype: torch.dtype, scene: Scene) -> float:
    return bound.at(dtype, *([torch.bfloat16] if scene.autocast else []))


def _numbers(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    route, dtype, scene = pair.routes[case.route], _dtype(case), case.scene
    if case.route == 1 and pair.routes[0].name == pair.routes[1].name:
        raise Nothing(f"the parent has one computation, {route.name}, and it is compared as the closest")
    _insist_on_scene(pair, scene)
    pair.parent_sees(route, dtype, scene)  # first: what it cannot do, nobody asks of the variant
    found = compare(pair, route, dtype, scene, pair.variant_sees(route, dtype, scene))
    return _decided(bench, case, found, _allowed(route.bound, dtype, scene), route)


def _insist_on_scene(pair: Pair, scene: Scene) -> None:
    """Raises Nothing where the parent has nothing that the scene asks for."""
    if scene.rows == "packed" and not pair.keeps_packed_apart:
        pair.inputs(scene, torch.float32)
        raise Nothing("the parent does not keep packed rows apart")
    if scene.dropout and not all(claim.same_draws for claim in pair.claims):
        raise Nothing("random numbers are drawn in another order")
    if scene.accumulate > 1 and ("labels" not in pair.inputs(scene, torch.float32).given or not _scales(pair)):
        raise Nothing("its loss takes no num_items_in_batch")
    if scene.checkpointing is not None and not pair.variant_class.supports_gradient_checkpointing:
        raise Nothing("it has no gradient checkpointing")


def _scales(pair: Pair) -> bool:
    # As `Trainer` finds out.
    kinds = {p.kind for p in inspect.signature(pair.parent_class.forward).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


def _decided(bench: Bench, case: Case, found: tuple[Difference, ...], allowed: float, route: Route) -> dict[str, Any]:
    worst = found[0]
    unit = "noises" if is_narrow(_dtype(case), case.scene) else "relative"
    same_unit = case if unit == "relative" else replace(case, dtype="bfloat16")
    seen = bench.smallest_planted(same_unit)
    note = f"{route.bound.name} to the parent under {route.name}"
    status: Status = "PASS"
    if not worst.largest <= allowed:
        status, note = "FAIL", f"{note}; {'; '.join(map(str, found[:3]))}"
    elif seen is None:
        status, note = "WARN", f"{note}; no planted error fits, so a pass shows little"
    elif seen < MARGIN * allowed or not seen:
        status, note = "WARN", f"{note}; the smallest planted error is not {MARGIN} times the bound"
    elif worst.largest:
        note = f"{note}; most in {worst.name}"
    return {"status": status, "apart": worst.largest, "bound": allowed, "seen": seen, "unit": unit, "note": note}


def _weights(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    """Attention weights, which a variant on SDPA has from the eager path: in its own settings of the first route."""
    parent_route, ours = pair.routes[1], pair.routes[0]
    dtype, scene = _dtype(case), case.scene
    reference = pair.parent_sees(parent_route, dtype, scene, weights=True)
    if not any("attentions" in name for name in reference):
        raise Nothing("the parent returns none")
    seen = pair.variant_sees(ours, dtype, scene, weights=True)
    found = compare(pair, parent_route, dtype, scene, seen, weights=True)
    return _decided(bench, case, found, _allowed(parent_route.bound, dtype, scene), parent_route)


# --- planted errors


def planted(pair: Pair, plant: Plant, dtype: torch.dtype) -> float | None:
    """How far the variant with this error is from the parent; None where the error does not fit the class."""
    if not plant.fits(pair.specimen):
        return None
    try:
        _insist_on_scene(pair, plant.scene)
        pair.inputs(plant.scene, dtype)
    except (Nothing, CannotBuild):
        return None
    route = pair.routes[0]
    _, variant = pair.models(route, dtype, plant.scene.dropout, fresh=True)
    with plant.apply(variant):
        try:
            seen = pair.variant_sees(route, dtype, plant.scene, model=variant)
        except (RuntimeError, ValueError):
            return math.inf  # it does not even run
    return compare(pair, route, dtype, plant.scene, seen)[0].largest


def _planted(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    part, _, name = case.detail.partition(":")
    plant = next(p for claim in pair.claims if claim.part == part for p in claim.plants if p.name == name)
    dtype = _dtype(case)
    apart = planted(pair, plant, dtype)
    if apart is None:
        raise Nothing("this error would change nothing in this class")
    allowed = max(_allowed(route.bound, dtype, plant.scene) for route in pair.routes)
    unit = "noises" if is_narrow(dtype, plant.scene) else "relative"
    told = {"apart": apart, "bound": allowed, "seen": apart, "unit": unit}
    if not apart > allowed:
        return {**told, "status": "FAIL", "note": f"not seen: {plant.says}"}
    if apart < MARGIN * allowed:
        return {**told, "status": "WARN", "note": f"seen, but less than {MARGIN} times the bound: {plant.says}"}
    return {**told, "status": "PASS", "note": f"seen: {plant.says}"}


# --- what ran


def _effect(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    claim = _claim(pair, case.detail)
    parent, variant = pair.evidence(claim.shown_in)
    missing = list(claim.effect(parent, variant, pair.specimen))
    largest = variant.largest_saved
    ran = (
        f"{len(variant.trace.sdpa)} SDPA calls ({_masks(variant.trace.sdpa)}; {_backends(variant.kernels)}), "
        f"{variant.trace.softmaxes_over(*pair.specimen.lengths)} softmaxes over scores, "
        f"{variant.saved_bytes:,} bytes saved where the parent saves {parent.saved_bytes:,}, "
        f"largest {'none' if largest is None else largest.shape}"
    )
    if missing:
        return {"status": "FAIL", "note": f"{'; '.join(missing)}: {ran}"}
    return {"status": "PASS", "note": ran}


def _claim(pair: Pair, part: str) -> Claim:
    return next(claim for claim in pair.claims if claim.part == part)


def _masks(calls: list[Any]) -> str:
    return ", ".join(sorted({f"mask {call.mask}" for call in calls})) or "no mask"


def _backends(kernels: dict[str, int]) -> str:
    named = sorted(name for name in kernels if "attention" in name and "backward" not in name)
    return ", ".join(name.removeprefix("aten.") for name in named) or "no attention kernel"


# --- checkpoints


def _checkpoints(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    """The parent's into the variant, back, and again; with nothing missing and every tensor equal."""
    route = pair.routes[0]
    with tempfile.TemporaryDirectory() as folder, quiet():
        parent = pair.master(torch.float32)
        place = Path(folder, "made")
        place.mkdir()
        variant = pair.build(parent, pair.variant_class, place, dict(route.variant))
        variant.save_pretrained(Path(folder, "variant"))
        again = strictly_loaded(pair.variant_class, Path(folder, "variant"), **route.variant)
        wrong = _unequal(variant, again)
        if pair.build is not reload:
            return _loaded(wrong, "made by its own conversion, saved and loaded again")
        back = strictly_loaded(pair.parent_class, Path(folder, "variant"), **route.parent)
        return _loaded([*wrong, *_unequal(parent, back)], "the parent's into the variant, and back")


def _unequal(one: PreTrainedModel, two: PreTrainedModel) -> list[str]:
    ours, theirs = one.state_dict(), two.state_dict()
    return [
        name
        for name in {**ours, **theirs}
        if name not in ours or name not in theirs or not torch.equal(ours[name].cpu(), theirs[name].cpu())
    ]


def _loaded(wrong: list[str], what: str) -> dict[str, Any]:
    if wrong:
        return {"status": "FAIL", "note": f"{what}: differs in {', '.join(sorted(wrong)[:5])}"}
    return {"status": "PASS", "note": what}


# --- generation


def _cache(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    """A prompt read at once and then token by token gives what the whole gives."""
    route, dtype = pair.routes[0], _dtype(case)
    variant = pair.models(route, dtype)[1]
    given = pair.inputs(case.scene, dtype).given
    if not takes_cache(pair.parent_class) or set(given) - {"input_ids"} or not pair.is_causal:
        raise Nothing("it is no decoder that keeps keys and values")
    ids, parts, cache = given["input_ids"], [], None
    with torch.no_grad(), widened():
        whole = variant.eval()(input_ids=ids, use_cache=False)[0]
        for first, last in [(0, SPLIT), *((i, i + 1) for i in range(SPLIT, ids.shape[1]))]:
            out = variant(input_ids=ids[:, first:last], past_key_values=cache, use_cache=True)
            cache = out.get("past_key_values")
            if cache is None:
                raise Nothing("it gives no cache")
            parts.append(out[0])
    found = differences({"logits": whole}, {"logits": torch.cat(parts, 1)})
    return _decided(bench, case, found, REORDERED.at(dtype), replace(route, bound=REORDERED, name="the whole text"))


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
    "static cache": {"cache_implementation": "static", "do_sample": False},
}


def _generated(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    if not pair.parent_class.can_generate():
        raise Nothing("it generates no text")
    if not (pair.is_causal or pair.config().is_encoder_decoder):
        raise Nothing("it is an encoder here")
    route, made = pair.routes[0], []
    given = dict(pair.inputs(case.scene, torch.float32).given)
    given.pop("decoder_input_ids", None)
    for model in pair.models(route, torch.float32):
        torch.manual_seed(0)
        out = model.eval().generate(
            **given,
            **WAYS[case.detail],
            min_new_tokens=NEW_TOKENS,
            max_new_tokens=NEW_TOKENS,
            output_logits=True,
            return_dict_in_generate=True,
        )
        made.append((out.sequences, torch.stack(out.logits, 1)))
    (theirs, logits), (ours, our_logits) = made
    if not torch.equal(ours, theirs):
        return {"status": "FAIL", "note": "other tokens than the parent's"}
    found = differences({"logits": logits}, {"logits": our_logits})
    return _decided(bench, case, found, route.bound.at(torch.float32), route)


# --- settings


def _attention(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    """Accepted or refused as the claims say, or as the parent does where they say nothing."""
    name = case.detail
    declared = [claim.attentions for claim in pair.claims if claim.attentions is not None]
    ours = _tried(pair, pair.variant_class, name)
    if not declared:
        theirs = _tried(pair, pair.parent_class, name)
        same = type(ours) is type(theirs)
        return {"status": "PASS" if same else "FAIL", "note": f"{_outcome(ours)}; the parent: {_outcome(theirs)}"}
    if all(name in accepted for accepted in declared):
        return {"status": "FAIL" if isinstance(ours, Exception) else "PASS", "note": f"declared; {_outcome(ours)}"}
    refused = isinstance(ours, ValueError)
    return {"status": "PASS" if refused else "FAIL", "note": f"not declared; {_outcome(ours)}"}


def _tried(pair: Pair, model_class: type[PreTrainedModel], name: str) -> Exception | None:
    """What building and running a model with this attention raises."""
    try:
        if model_class is pair.variant_class and pair.build is not reload:
            with tempfile.TemporaryDirectory() as folder, quiet():
                settings = {**pair.routes[0].variant, "attn_implementation": name}
                model = pair.build(pair.master(torch.float32), model_class, Path(folder), settings)
        else:
            model = model_class._from_config(pair.config(), attn_implementation=name)
        observe_step(model.to(pair.device), pair.inputs(Scene(), torch.float32), Scene())
    except Exception as error:
        return error
    return None


def _outcome(error: Exception | None) -> str:
    if error is None:
        return "built and run"
    return f"refused: {type(error).__name__}: {' '.join(str(error).split())[:120]}"


def _compiled(bench: Bench, pair: Pair, case: Case) -> dict[str, Any]:
    """The compiled variant against itself uncompiled: what it computes must not depend on that."""
    route = pair.routes[0]
    inputs = pair.inputs(case.scene, torch.float32)
    _, variant = pair.models(route, torch.float32, fresh=True)
    reference = observe_step(variant, inputs, case.scene)
    torch._dynamo.reset()
    variant.compile(backend=case.detail, dynamic=False)
    seen = observe_step(variant, inputs, case.scene)
    torch._dynamo.reset()
    compared: dict[str, Tensor] = {name: t for name, t in seen.items() if not name.startswith("attentions")}
    found = differences(reference, compared)
    return _decided(bench, case, found, REORDERED.at(torch.float32), replace(route, bound=REORDERED, name="itself"))


CHECKS: dict[str, Callable[[Bench, Pair, Case], dict[str, Any]]] = {
    "numbers": _numbers,
    "weights": _weights,
    "planted": _planted,
    "effect": _effect,
    "checkpoints": _checkpoints,
    "cache": _cache,
    "generated": _generated,
    "attention": _attention,
    "compiled": _compiled,
}
