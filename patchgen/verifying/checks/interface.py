"""Check each attention function, attention weights, the cache and generation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, StaticCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flash_attention_mask, sdpa_mask

from patchgen import disk
from patchgen.syntax.errors import describe_error
from patchgen.verifying.checks.context import (
    REORDERING,
    CheckContext,
    NothingToCompare,
    Verdict,
    decide,
    judge,
    require_scenario,
)
from patchgen.verifying.checks.itself import generate
from patchgen.verifying.differences import EQUAL, REORDERED, Gaps, differences
from patchgen.verifying.inputs.arguments import Inputs, takes
from patchgen.verifying.models.build import (
    flash_reference,
    flex_on_cpu,
    registered,
    silence_progress,
)
from patchgen.verifying.models.pair import Pair
from patchgen.verifying.observe.recorder import compute_in_float64
from patchgen.verifying.observe.step import kept, observe_step, takes_cache
from patchgen.verifying.parts.combine import ATTENTION, EAGER
from patchgen.verifying.parts.part_check import Route, Scenario, reload

# --- Check a model that calls transformers' attention interface with each attention function

OWN = "a_function_of_ones_own"


Attending = Iterator[tuple[Route, list[dict[str, Any]] | None]]


@contextmanager
def attending(how: str, pair: Pair) -> Attending:
    """The route to the parent under "eager", and the calls of a function of ours.

    `how` is "eager", "flex_attention", "flash", or "registered", a user's own function.
    """
    name = {"flash": "by_reference", "registered": OWN}.get(how, how)
    bound = REORDERED
    if how == "eager":  # bit for bit, unless other parts of the variant have larger bounds
        others = [check for check in pair.part_checks if not check.by_flags]
        bound = max([EQUAL, *(each.routes(pair.parent_class)[0].bound for each in others)])
    route = Route(f"eager, the variant under {name}", bound, EAGER, {ATTENTION: name})
    functions = {
        "flash": (flash_reference, flash_attention_mask),
        "registered": (sdpa_attention_forward, sdpa_mask),
    }
    if how in functions:
        with registered(name, *functions[how]) as calls:
            yield route, calls
        return
    with flex_on_cpu() if how == "flex_attention" else nullcontext():
        yield route, None


@contextmanager
def attending_both(context: CheckContext) -> Attending:
    """The route of a case of the interface: the parent has the variant's attention where it can."""
    how = context.case.detail
    with attending(how, context.pair) as (route, calls):
        if not _by_flags(context.pair):
            calls = None  # it need not call the function
            if context.case.scenario.rows != "packed":  # what the parent gives it
                route = replace(route, name=f"both under {how}", parent=route.variant)
        yield route, calls


def _by_flags(pair: Pair) -> bool:
    return any(check.by_flags for check in pair.part_checks)


def check_interface(context: CheckContext) -> Verdict:
    pair = context.pair
    how = context.case.detail
    if how == "flex_attention" and not pair.variant_class._supports_flex_attn:
        raise NothingToCompare("its flags say that it does not take flex attention")
    if how == "flash" and not pair.variant_class._supports_flash_attn:
        raise NothingToCompare("its flags say that it does not take FlashAttention")
    with attending_both(context) as (route, calls):
        view = context.view(route)
        try:
            view.parent()
        except KeyError as error:  # GPT-J has a table of attentions by name
            raise NothingToCompare(f"the parent has no attention by the name of {error}") from error
        verdict = decide(context, view.compare(view.variant()), route)
    layers = getattr(pair.config(), "num_hidden_layers", 1)
    if calls is not None and len(calls) < layers:
        return Verdict("FAIL", f"the function was called {len(calls)} times; {verdict.note}")
    return verdict


# --- Check `attn_implementation`, and the attention weights that a user asks for


def check_attention_weights(context: CheckContext) -> Verdict:
    """Compare attention weights, which in transformers only eager attention returns."""
    pair = context.pair
    view = context.view(context.pair.weights_route, weights=True)
    require_scenario(pair, view.scenario)
    reference = view.parent()
    if not any("attentions" in name for name in reference):
        raise NothingToCompare("the parent returns none")
    return decide(context, view.compare(view.variant()), view.route)


def check_attn_implementation(context: CheckContext) -> Verdict:
    """Check that the value is accepted or refused as the part checks or the parent say."""
    pair = context.pair
    name = context.case.detail
    declared = [each.attentions for each in pair.part_checks if each.attentions is not None]
    ours = _tried(pair, pair.variant_class, name)
    why = "not declared"
    right: type[Any] = ValueError
    if not declared:
        theirs = _tried(pair, pair.parent_class, name)
        why = f"the parent: {_outcome(theirs)}"
        right = type(theirs)
        # The parent needs a package that is not here, and the variant's flags do not take it.
        restricted = isinstance(theirs, ImportError) and not supports(pair.variant_class, name)
        if restricted and type(ours) is not type(theirs):
            return Verdict("WARN", f"{_outcome(ours)}; {why}")
    elif all(name in accepted for accepted in declared):
        why = "declared"
        right = type(None)
    elif _by_flags(pair) and supports(pair.variant_class, name):
        # FlashAttention is not installed on a CPU, and transformers says so.
        right = ImportError if name.startswith("flash") else type(None)
        why = "supported by its flags"
    return judge(isinstance(ours, right), f"{_outcome(ours)}; {why}")


def supports(model_class: type[PreTrainedModel], name: str) -> bool:
    flags = {"sdpa": "_supports_sdpa", "flex_attention": "_supports_flex_attn"}
    flag = "_supports_flash_attn" if name.startswith("flash_attention") else flags.get(name, "")
    return getattr(model_class, flag, False)


def _tried(pair: Pair, model_class: type[PreTrainedModel], name: str) -> Exception | None:
    try:
        if model_class is pair.variant_class and pair.build is not reload:
            with disk.scratch() as folder, silence_progress():
                settings = {**pair.routes[0].variant, "attn_implementation": name}
                model = pair.build(pair.master(torch.float32), model_class, folder, settings)
        else:
            # A variant may have a configuration of its own, with fields that the parent's lacks.
            config = model_class.config_class.from_dict(pair.config().to_dict())
            model = model_class._from_config(config, attn_implementation=name)
        with flex_on_cpu() if pair.device == "cpu" else nullcontext():
            observe_step(model.to(pair.device), pair.inputs(Scenario(), torch.float32), Scenario())
    except Exception as error:  # each model has its own
        return error
    return None


def _outcome(error: Exception | None) -> str:
    if error is None:
        return "built and run"
    return f"refused: {describe_error(error, 120)}"


# --- Check that the variant generates the parent's text, and that its cache gives the same

NEW_TOKENS = 5
SPARE = 6  # places of a static cache that stay empty
# Where a text is cut, from its end.  A piece of two tokens needs a mask; one would not.
CUTS = ((4, 2, 1, 0), (4, 3, 2, 1, 0))
TEXT = {"input_ids", "attention_mask", "decoder_input_ids"}
TEXT |= {"encoder_hidden_states", "encoder_attention_mask"}
MORE_CACHES = ("cache_params",)  # of state spaces
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
    "static cache": {"cache_implementation": "static", "do_sample": False},
}


def check_cache(context: CheckContext) -> Verdict:
    """A text that is read in pieces, with a cache, gives the logits of the whole text.

    NONE where the parent has no cache that does so; where it has, a variant that gives none is a
    FAIL. A "static" one has more places than tokens, and is filled from empty.
    """
    pair = context.pair
    how = context.case.attention
    static = context.case.detail == "static"
    config = pair.config()
    if not takes_cache(pair.parent_class) or not (pair.is_causal or config.is_encoder_decoder):
        raise NothingToCompare("it is no decoder that keeps keys and values")
    if how == "flash" and (static or not pair.variant_class._supports_flash_attn):
        raise NothingToCompare("it does not take FlashAttention here")
    inputs = pair.inputs(context.case.scenario, context.dtype)
    text = "decoder_input_ids" if config.is_encoder_decoder else "input_ids"
    if text not in inputs.given or (inputs.given.keys() - TEXT and text == "input_ids"):
        raise NothingToCompare("it reads more than text")
    with reading(context) as route:
        try:
            parent, variant = pair.models(route, context.dtype)
        except ValueError as error:
            raise NothingToCompare(f"refused: {error}") from error
        if pair.variant.replaced:  # the parent has the variant's class, and perhaps its fault
            parent = pair.plain_parent.to(pair.device)
        pieces = _pieces_for(parent, inputs, REORDERED.at(context.dtype), static=static)
        gaps = _in_chunks(variant, inputs, pieces, static=static)
    if gaps is None:
        return Verdict("FAIL", "it gives no cache, and the parent does")
    return decide(context, gaps, route, "what the whole text gives")


@contextmanager
def reading(context: CheckContext) -> Iterator[Route]:
    """The route along which a cache is read, by the case's attention."""
    pair = context.pair
    how = context.case.attention
    with attending(how, pair) if how else nullcontext((pair.routes[0], None)) as under:
        yield replace(under[0], bound=REORDERED)


def _pieces_for(
    parent: PreTrainedModel, inputs: Inputs, bound: float, *, static: bool
) -> tuple[int, ...]:
    """Where the text is cut.  State-space models cannot read several tokens after a cache."""
    for pieces in CUTS:
        try:
            gaps = _in_chunks(parent, inputs, pieces, static=static)
        except Exception as error:  # each model has its own
            raise NothingToCompare(f"the parent itself does not run so: {error}") from error
        if gaps is None:
            raise NothingToCompare("it gives no cache")
        if gaps[0].largest <= REORDERING * bound:
            return pieces
    raise NothingToCompare("what the parent reads by its cache is not what it reads at once")


def _in_chunks(
    model: PreTrainedModel, inputs: Inputs, pieces: tuple[int, ...], *, static: bool
) -> Gaps | None:
    """How far logits of the pieces are from those of the whole; None without a cache."""
    given = dict(inputs.given)
    real = inputs.real[-1]
    name = "input_ids"
    mask = None
    if model.config.is_encoder_decoder:
        name = "decoder_input_ids"
    else:
        mask = given.pop("attention_mask", None)
    ids = given.pop(name)
    length = ids.shape[1]
    parts: list[Tensor] = []
    first = 0
    arguments = takes(type(model))
    taken = next((each for each in MORE_CACHES if each in arguments), "past_key_values")
    cache: Any = None
    if static:
        cache = StaticCache(config=model.config, max_cache_len=length + SPARE)

    def read(first: int, last: int, **asked: Any) -> tuple[Tensor, Any]:
        seen = {name: ids[:, first:last]}
        if mask is not None:
            seen["attention_mask"] = mask[:, :last]
            if static and "position_ids" in arguments:
                positions = mask.cumsum(1) - 1
                positions = positions.clamp(min=0)
                seen["position_ids"] = positions[:, first:last]
        out = model(**given, **seen, return_dict=True, **asked)
        kind = "logits" if "logits" in out else "last_hidden_state"
        logits = out[kind]
        return logits, getattr(out, taken, None)

    model.eval()
    # What Qwen2-VL keeps of one text is not for the next.
    with torch.no_grad(), compute_in_float64(), kept(model):
        whole, _ = read(0, length, use_cache=False)
        for piece in pieces:
            last = length - piece
            logits, cache = read(first, last, **{taken: cache}, use_cache=True)
            if cache is None:
                return None
            parts.append(logits)
            first = last
    return differences({"logits": whole[real]}, {"logits": torch.cat(parts, 1)[real]})


def read_in_pieces(model: PreTrainedModel, inputs: Inputs, *, static: bool) -> None:
    """A text by a cache, a token at a time, and several where the model can."""
    several, single = CUTS
    _in_chunks(model, inputs, single, static=static)
    with suppress(Exception):  # each has its own
        _in_chunks(model, inputs, several, static=static)


def check_generation(context: CheckContext) -> Verdict:
    """Check that both generate the same tokens, by the method that the case's detail names."""
    pair = context.pair
    route = pair.routes[0]
    if not pair.parent_class.can_generate():
        raise NothingToCompare("it generates no text")
    if not (pair.is_causal or pair.config().is_encoder_decoder):
        raise NothingToCompare("it is an encoder here")
    parent, variant = pair.models(route, torch.float32)
    try:
        theirs, logits = generate_as_asked(context, parent)
    except Exception as error:  # each has its own
        raise NothingToCompare(f"the parent itself does not run so: {error}") from error
    ours, our_logits = generate_as_asked(context, variant)
    if not torch.equal(ours, theirs):
        return Verdict("FAIL", "other tokens than the parent's")
    return decide(context, differences({"logits": logits}, {"logits": our_logits}), route)


def generate_as_asked(context: CheckContext, model: PreTrainedModel) -> tuple[Tensor, Tensor]:
    given = context.pair.inputs(context.case.scenario, torch.float32).given
    torch.manual_seed(0)
    with kept(model):
        return generate(model, given, NEW_TOKENS, **WAYS[context.case.detail])
