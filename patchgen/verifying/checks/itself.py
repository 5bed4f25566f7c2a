"""Hold a model against itself under another way of running, which needs no parent.

What a new model, or one that is changed on purpose, must do whatever it computes: a row does not
depend on the other rows, a cache gives what the whole text gives, a checkpoint comes back as it
was.  `WAYS` has a function for each; it gives what is expected and what the other way gives.
Where the parent does not do so either, there is nothing to prove.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, set_seed

from patchgen.facts.modules import CACHES
from patchgen.verifying.checks.context import (
    CheckContext,
    NothingToCompare,
    Verdict,
    decide,
    judge,
    require_scenario,
)
from patchgen.verifying.checks.saved import SAVED, Both, Way, of_both
from patchgen.verifying.differences import EQUAL, REORDERED, Bound, Observed, differences
from patchgen.verifying.inputs.arguments import LENGTH, CannotBuild, Inputs, takes
from patchgen.verifying.models.build import silence_progress
from patchgen.verifying.observe.recorder import compute_in_float64
from patchgen.verifying.observe.step import SEED, is_causal, observe_step, outputs, run, takes_cache
from patchgen.verifying.parts.part_check import Scenario, shorten_names

TEXTS = (3, 1, 2, LENGTH - 6)  # tokens of texts in one row; the longest one is not the first
NEW_TOKENS = 4
MORE_WORDS = 8
# A narrow dtype rounds so much coarser; a model that is right is at most so many times further off.
COARSER = 16.0


def check_itself(context: CheckContext) -> Verdict:
    way, bound = WAYS[context.case.detail]
    pair = context.pair
    pair.observe_parent(pair.routes[0], context.dtype, Scenario())  # raises where it does not run
    found = way(context)
    if isinstance(found, Verdict):
        return found
    route = replace(pair.routes[0], bound=bound)
    return decide(context, differences(*found), route, "itself run otherwise")


# --- rows and lengths


def _in_parts(parts: Callable[[int], list[list[int]]], context: CheckContext) -> Both:
    """Some rows of a batch at a time."""
    batch = context.given("right")
    model = context.model()
    rows = len(next(iter(batch.values())))
    order: list[int] = []
    pieces: list[Observed] = []
    for part in parts(rows):
        piece = {name: tensor[part] for name, tensor in batch.items()}
        pieces.append(run(model, piece))
        order += part
    whole = run(model, batch)
    wanted = {}
    ours = {}
    for name, tensor in whole.items():
        # What is one of the whole batch has no rows.
        if tensor.shape[:1] == (rows,):
            wanted[name] = tensor[order]
            ours[name] = torch.cat([piece[name] for piece in pieces])
    return wanted, ours


def _first_token(context: CheckContext) -> Both:
    """The first token of a text of which nothing else is there."""
    given = context.given()
    model = context.model()
    if set(given) != {"input_ids"} or not context.pair.is_causal:
        raise NothingToCompare("it is no decoder of texts")
    ids = given["input_ids"]

    def is_of_tokens(tensor: Tensor) -> bool:
        return tensor.dim() > 2 and tensor.shape[1] == ids.shape[1]

    alone = run(model, {"input_ids": ids[:, :1]})
    whole, ours = of_both(run(model, given), alone, is_of_tokens)
    first = {name: tensor[:, :1] for name, tensor in whole.items()}
    return first, ours


def _sees_earlier_tokens(context: CheckContext) -> Verdict:
    """Nothing depends on later tokens, where nothing does in the parent as transformers has it."""
    inputs = context.inputs(Scenario(labels=False))
    on_cpu = inputs.to("cpu", context.dtype)
    if "input_ids" not in inputs.given or not is_causal(context.pair.plain_parent, on_cpu):
        raise NothingToCompare("its parent is no decoder of texts")
    if is_causal(context.model(), inputs):
        return Verdict("PASS", "no output depends on a later token")
    # A class that differs may be meant to see both ways.
    return Verdict("WARN", "outputs depend on later tokens, and none of the parent's does")


def _packed(masked: bool, route: int, context: CheckContext) -> Both | Verdict:
    """Texts in a row, which positions tell apart, and each text alone.

    Where a part promises it, what is given for each text, as a pooler does, is compared too; a mask
    of ones may be refused.
    """
    pair = context.pair
    given = context.given()
    _, model = pair.models(pair.route(route), context.dtype)
    checks = pair.part_checks
    promised = any(check.keeps_texts_apart for check in checks)
    if masked and not any(check.keeps_texts_apart_with_a_mask for check in checks):
        raise NothingToCompare("no part promises it")
    takes_positions = "position_ids" in takes(type(model)) and "input_ids" in given
    if not takes_positions or not (promised or pair.isolates_packed_texts):
        raise NothingToCompare("positions do not keep texts apart in the parent")
    ids = given["input_ids"]
    if not pair.isolates_packed_texts:
        ids = ids[:1]
    texts = ids.split(TEXTS, 1)
    first = _first_position(model)
    positions: list[Tensor] = []
    for text in texts:
        counted = first + torch.arange(text.shape[1], device=ids.device)
        positions.append(counted.expand_as(text))
    row = {"input_ids": torch.cat(texts, 1), "position_ids": torch.cat(positions, 1)}
    tokens = row["input_ids"].shape[1]
    if masked:
        row["attention_mask"] = torch.ones_like(row["input_ids"])
    try:
        packed = run(model, row)
    except ValueError as error:
        raise NothingToCompare(f"refused: {error}") from error
    alone = [
        run(model, {"input_ids": text, "position_ids": places})
        for text, places in zip(texts, positions, strict=True)
    ]
    wanted: dict[str, Tensor] = {}
    ours: dict[str, Tensor] = {}
    wrong: list[str] = []
    for name, tensor in packed.items():
        is_of_tokens = tensor.dim() > 2 and tensor.shape[1] == tokens
        if not is_of_tokens and not promised:
            continue
        axis = 1 if is_of_tokens else 0
        ours[name] = tensor
        wanted[name] = torch.cat([outputs_of_text[name] for outputs_of_text in alone], axis)
        if tensor.shape != wanted[name].shape:
            wrong.append(f"{name} is {tuple(tensor.shape)}")
    if wrong:
        return Verdict("FAIL", f"{', '.join(wrong)} for texts in one row")
    return wanted, ours


def _first_position(model: PreTrainedModel) -> int:
    """The position of a text's first token; RoBERTa's positions start after that of padding."""
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            return int(padding) + 1
    return 0


def _first_labels(context: CheckContext) -> Both:
    """The label of a text's first token does not count, also where rows share their positions."""
    if not hasattr(context.pair.module, "labels_within_texts"):
        raise NothingToCompare("it takes labels as they are")
    model = context.model()
    ids = context.given()["input_ids"]
    labels = ids.clone()
    positions = torch.cat([torch.arange(length, device=ids.device) for length in TEXTS])[None]
    given = {"input_ids": ids, "position_ids": positions, "labels": labels}
    is_first = positions == 0
    expected = {
        "input_ids": ids,
        "position_ids": positions.expand_as(ids),
        "labels": ids.masked_fill(is_first, -100),
    }
    wanted = run(model, expected)["loss"]
    ours = run(model, given)["loss"]
    before = {"loss": wanted, "the caller's labels": ids.double()}
    after = {"loss": ours, "the caller's labels": labels.double()}
    return before, after


# --- how it is called


def _called_again(context: CheckContext) -> Both:
    """A longer batch and a shorter one leave nothing behind."""
    model = context.model(fresh=True)
    given = context.given()
    first: dict[str, Tensor] = {}
    for length in (None, 2 * LENGTH, 2, None):
        try:
            between = context.inputs(Scenario(labels=False, length=length)).given
        except CannotBuild:
            between = given
        first = first or run(model, between)
        again = run(model, between)
    return first, again


def _without_gradients(context: CheckContext) -> Both:
    """In training mode `torch.no_grad` changes no output."""
    training = Scenario(train=True)
    inputs = context.inputs(training)
    model = context.model()
    learning = observe_step(model, inputs, training)
    set_seed(SEED)
    with torch.no_grad(), compute_in_float64():
        out = model.train()(**inputs.given, **inputs.options, return_dict=True)
    wanted = dict(outputs(out))
    ours = {}
    for name, tensor in learning.items():
        if name in wanted:
            ours[name] = tensor.view(wanted[name].shape)  # that of tokens is flattened
    return of_both(wanted, ours)


def _as_tuple(context: CheckContext) -> Both | Verdict:
    """`return_dict=False` gives the same, in the same order; in training the loss first."""
    given = context.given(labels=True)
    model = context.model()
    named, placed = (
        run(model, given, output_hidden_states=True, return_dict=way) for way in (True, False)
    )
    if len(named) != len(placed):
        return Verdict("FAIL", "a tuple has other parts than the names")
    both = named, dict(zip(named, placed.values(), strict=True))
    asked = {"use_cache": False} if takes_cache(type(model)) else {}
    for side, is_named in zip(both, (True, False), strict=True):
        set_seed(0)
        with torch.no_grad(), compute_in_float64():
            out = model.train()(**given, return_dict=is_named, **asked)
        side |= {f"{n} in training": each for n, (_, each) in enumerate(outputs(out))}
    return both


def _states_by_configuration(context: CheckContext) -> Both:
    """`config.output_hidden_states` gives what the argument gives, at padding as well."""
    try:
        given = context.given("right")
    except CannotBuild:
        given = context.given()
    model = context.model(fresh=True)
    asked = run(model, given, output_hidden_states=True)
    model.config.output_hidden_states = True
    return asked, run(model, given)


def _last_logits(context: CheckContext) -> Both:
    given = context.given()
    model = context.model()
    if "logits_to_keep" not in takes(type(model)):
        raise NothingToCompare("its forward takes no logits_to_keep")
    whole = run(model, given)["logits"]
    places = torch.tensor([0, 3], device=model.device)
    wanted = {"of one": whole[:, -1:], "of places": whole[:, places], "all": whole}
    kept = {"of one": 1, "of places": places, "all": 0}
    ours: dict[str, Tensor] = {}
    for name, which in kept.items():
        ours[name] = run(model, given, logits_to_keep=which)["logits"]
    return wanted, ours


def _cache_by_default(context: CheckContext) -> Both:
    """A training step that says nothing of a cache, also with checkpointing."""
    if not takes_cache(type(context.model())):
        raise NothingToCompare("it has no cache")
    model = context.model(fresh=True)
    plain = Scenario(train=True)
    inputs = context.inputs(plain)
    unasked = replace(inputs, options={**inputs.options, "use_cache": None})
    # transformers switches the cache off where layers are checkpointed.
    scenarios = {"": plain}
    if model.supports_gradient_checkpointing:
        scenarios[", checkpointed"] = replace(plain, checkpointing={})
    found: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    for suffix, scenario in scenarios.items():
        for side, given in zip(found, (inputs, unasked), strict=True):
            for name, tensor in observe_step(model, given, scenario).items():
                side[f"{name}{suffix}"] = tensor
    models = context.pair.models(context.pair.routes[0], context.dtype, fresh=True)
    for side, each in zip(found, models, strict=True):
        out = each.eval()(**context.given())
        is_there = any(getattr(out, name, None) is not None for name in CACHES)
        side["whether there is a cache in an evaluation"] = torch.tensor(float(is_there))
    return found


def _resized(context: CheckContext) -> Both:
    """With more words in its vocabulary it gives the same for those that it had."""
    given = context.given()
    model = context.model(fresh=True)
    words = model.config.get_text_config().vocab_size
    if "input_ids" not in given or model.get_input_embeddings().weight.shape[0] != words:
        raise NothingToCompare("it has no vocabulary")
    before = run(model, given)
    with silence_progress():
        model.resize_token_embeddings(words + MORE_WORDS, mean_resizing=False)
    return before, {
        name: tensor[..., :words] if tensor.shape[-1] == words + MORE_WORDS else tensor
        for name, tensor in run(model, given).items()
    }


# --- how it is trained


def _checkpointed(context: CheckContext) -> Both | Verdict:
    """Layers that run again in the backward pass, dropout included; a user says what they keep."""
    scenario = Scenario(rows="right", train=True, dropout=0.2)
    require_scenario(context.pair, Scenario(checkpointing={}))
    _, model = context.pair.models(context.pair.routes[0], context.dtype, 0.2)
    inputs = context.inputs(scenario)
    asked: list[bool] = []

    def contexts() -> tuple[nullcontext[None], nullcontext[None]]:
        asked.append(True)
        return nullcontext(), nullcontext()

    ways: tuple[Any, ...] = ({"context_fn": contexts}, {}, None)
    observed = [observe_step(model, inputs, replace(scenario, checkpointing=way)) for way in ways]
    if not asked:
        return Verdict("FAIL", "no layer asks a user's own `context_fn` what it keeps")
    return observed[2], observed[1]


def _with_router_losses(context: CheckContext) -> PreTrainedModel:
    model = context.model(fresh=True)
    for name in [name for name in vars(model.config) if name.endswith("_loss_coef")]:
        for owner in (model.config, model):
            setattr(owner, name, 0.3)
        model.config.output_router_logits = True
    return model


def _counted(times: int, context: CheckContext) -> Both:
    """`num_items_in_batch` of so many times the labels that there are divides the loss by that."""
    require_scenario(context.pair, Scenario(accumulate=2))
    training = Scenario("right", train=True)
    try:
        inputs = context.inputs(training)
    except CannotBuild:
        training = Scenario(train=True)
        inputs = context.inputs(training)

    def divided_by(items: int) -> Inputs:
        options = {**inputs.options, "num_items_in_batch": torch.tensor(items)}
        return replace(inputs, options=options)

    parent, _ = context.pair.models(context.pair.routes[0], context.dtype)
    total = observe_step(parent, divided_by(1), training)["loss"]
    mean = observe_step(parent, inputs, training)["loss"]
    labels = int((inputs.given["labels"] != -100).sum())
    # BERT's own loss does not heed it, and losses of routers beside it may.
    is_heeded = bool(total != mean)
    if is_heeded:
        labels = round(float(total / mean))
    divided = divided_by(times * labels)
    with_routers = _with_router_losses(context)
    without = context.model()
    plain = observe_step(with_routers, inputs, training)
    plain_of_labels = observe_step(without, inputs, training)["loss"]
    part = observe_step(with_routers, divided, training)
    part_of_labels = observe_step(without, divided, training)["loss"]
    wanted: dict[str, Tensor] = {}
    ours: dict[str, Tensor] = {}
    for name in plain:
        if is_heeded and (name == "loss" or name.startswith("gradient of ")):
            wanted[name] = plain[name]
            ours[name] = times * part[name]
    # The losses of routers are taken apart: the loss of labels rounds more.
    routers = part["loss"] - part_of_labels
    wanted["all losses"] = plain["loss"]
    ours["all losses"] = plain_of_labels + times * routers
    return wanted, ours


def _evaluated(context: CheckContext) -> Both:
    """The losses of routers are in no loss of an evaluation."""
    given = context.given(labels=True)
    wanted, ours = (run(model, given) for model in (context.model(), _with_router_losses(context)))
    if "loss" not in wanted:
        raise NothingToCompare("it has no loss here")
    return {"loss": wanted["loss"]}, {"loss": ours["loss"]}


def _after_evaluation(context: CheckContext) -> Both:
    """A training step with dropout is the same after an evaluation."""
    scenario = Scenario(train=True, dropout=0.2)
    pair = context.pair
    _, model = pair.models(pair.routes[0], context.dtype, 0.2, fresh=True)
    inputs = context.inputs(scenario)
    before = observe_step(model, inputs, scenario)
    run(model, inputs.given)
    return before, observe_step(model, inputs, scenario)


def _unlabelled(context: CheckContext) -> Verdict:
    """The loss of a batch in which no label counts is the parent's, which most say is NaN."""
    pair = context.pair
    training = Scenario(train=True)
    inputs = context.inputs(training)
    labels = inputs.given.get("labels")
    if labels is None or labels.is_floating_point() or labels.dim() < 2:
        raise NothingToCompare("its loss ignores no label")
    given = {**inputs.given, "labels": torch.full_like(labels, -100)}
    unlabelled = replace(inputs, given=given)
    models = pair.models(pair.routes[0], context.dtype)
    theirs, ours = (observe_step(each, unlabelled, training).get("loss") for each in models)
    if theirs is None or ours is None:
        raise NothingToCompare("it has no loss here")
    note = f"the loss of no label is {float(ours)}, the parent's {float(theirs)}"
    return judge(torch.allclose(ours, theirs, equal_nan=True), note)


def _trimmed(context: CheckContext) -> Both:
    """A text without the padding at its right, and without a mask."""
    training = Scenario("right", train=True)
    padded = context.inputs(training).rows(2, 3)
    model = _with_router_losses(context)
    width = padded.real[0].shape[1]
    length = int(padded.real[0].sum())

    def trim(tensor: Tensor) -> Tensor:
        is_padded = tensor.shape[1:2] == (width,)
        return tensor[:, :length] if is_padded else tensor

    given = {name: trim(tensor) for name, tensor in padded.given.items()}
    given.pop("attention_mask", None)
    real = tuple(map(trim, padded.real))
    trimmed = replace(padded, given=given, real=real)
    wanted = observe_step(model, trimmed, training)
    ours = observe_step(model, padded, training)
    for name in [*wanted]:
        # Outputs of tokens are longer where there is padding.
        if wanted[name].shape != ours[name].shape:
            del wanted[name]
    return of_both(wanted, ours)


def _finite(context: CheckContext) -> Verdict:
    """Each parameter has a finite gradient, and one that the parent lacks is reached by one."""
    training = Scenario(train=True)
    observed = observe_step(context.model(), context.inputs(training), training)
    wrong = [name for name, tensor in observed.items() if not tensor.isfinite().all()]
    if wrong:
        return Verdict("FAIL", f"{shorten_names(wrong)} is not finite")
    reached = {name for name, tensor in observed.items() if tensor.any()}
    new = context.pair.new_parameters
    missed = [name for name in new if f"gradient of {name}" not in reached]
    if missed:
        return Verdict("FAIL", f"no gradient reaches {shorten_names(missed)}")
    note = f"{len(observed)} outputs and gradients are finite"
    if new:
        note += f"; {shorten_names(new)} is new and has one"
    return Verdict("PASS", note)


def _in(
    context: CheckContext, dtype: torch.dtype, side: int = 1, autocast: bool = False
) -> Observed:
    pair = context.pair
    # A step that draws no random numbers, which depend on the dtype.
    draws = "training" in dict(pair.variant.differs)
    scenario = Scenario(rows="left", train=not draws, autocast=autocast)
    return observe_step(
        pair.models(pair.routes[0], dtype)[side], pair.inputs(scenario, dtype), scenario
    )


def _float32(context: CheckContext) -> Verdict:
    theirs, ours = (
        differences(_in(context, torch.float64, side), _in(context, torch.float32, side))[0]
        for side in (0, 1)
    )
    bound = COARSER * max(theirs.largest, torch.finfo(torch.float32).eps)
    note = f"float32 beside its own float64, most in {ours.name}"
    return judge(ours.largest <= bound, note, ours.largest, bound, "relative")


def _narrow(dtype: torch.dtype, autocast: bool, context: CheckContext) -> Verdict:
    """Beside its own float64, in units of its own float32 as coarse as this dtype."""
    exact = _in(context, torch.float64)
    fine = _in(context, torch.float32)
    try:
        narrow = _in(context, torch.float32 if autocast else dtype, autocast=autocast)
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        raise NothingToCompare(f"this machine cannot: {error}") from error
    if wrong := [name for name, tensor in narrow.items() if not tensor.isfinite().all()]:
        return Verdict("FAIL", f"{shorten_names(wrong)} is not finite in {dtype}")
    ratio = torch.finfo(dtype).eps / torch.finfo(torch.float32).eps
    own = {each.name: each for each in differences(exact, fine)}
    sizes = sorted(each.rms for each in own.values() if math.isfinite(each.rms))
    floor = sizes[len(sizes) // 2] if sizes else 0.0
    if not floor:
        raise NothingToCompare("float32 gives its float64 exactly")
    multiples: list[tuple[float, str]] = []
    for gap in differences(exact, narrow):
        if not gap.missing and not gap.vanishes and gap.name in own:
            expected = ratio * max(own[gap.name].rms, floor)
            multiples.append((gap.rms / expected, gap.name))
    if not multiples:
        raise NothingToCompare("float32 gives its float64 exactly")
    times, name = max(multiples)
    note = f"{dtype} beside its own float64, most in {name}"
    return judge(times <= COARSER, note, times, COARSER, "of its float32, as coarse")


# --- generation


def _generated(context: CheckContext) -> Both:
    model = context.model()
    is_decoder = context.pair.is_causal or model.config.is_encoder_decoder
    if not type(model).can_generate() or not is_decoder:
        raise NothingToCompare("it generates no text")
    given = context.given("left")
    ways = ({"use_cache": cache, "do_sample": False} for cache in (False, True))
    made = [generate(model, given, NEW_TOKENS, **way) for way in ways]
    without, cached = ({"logits": logits} for _, logits in made)
    return without, cached


def generate(
    model: PreTrainedModel, given: Mapping[str, Tensor], tokens: int, **asked: Any
) -> tuple[Tensor, Tensor]:
    """So many tokens behind a text, and their logits; a float64 model computes all in that."""
    prompt = dict(given)
    prompt.pop("decoder_input_ids", None)
    asked |= {"min_new_tokens": tokens, "max_new_tokens": tokens}
    asked |= {"output_logits": True, "return_dict_in_generate": True}
    is_wide = model.dtype == torch.float64
    with torch.no_grad(), compute_in_float64() if is_wide else nullcontext():
        out = model.eval().generate(**prompt, **asked)
    return out.sequences, torch.stack(out.logits, 1)


# What each way is called, what it does, and how far both may be apart.
WAYS: Mapping[str, tuple[Way, Bound]] = {
    "a batch of one": (partial(_in_parts, lambda rows: [[n] for n in range(rows)]), REORDERED),
    "rows in another order": (partial(_in_parts, lambda rows: [[*range(rows)][::-1]]), REORDERED),
    "a length of one": (_first_token, REORDERED),
    "earlier tokens alone": (_sees_earlier_tokens, EQUAL),
    "packed rows": (partial(_packed, False, 0), REORDERED),
    "packed rows beside a mask of ones": (partial(_packed, True, 0), REORDERED),
    "packed rows beside a mask of ones, eager": (partial(_packed, True, 2), REORDERED),
    "labels of first tokens": (_first_labels, REORDERED),
    "called again": (_called_again, EQUAL),
    "without gradients": (_without_gradients, REORDERED),
    "counted labels": (partial(_counted, 1), REORDERED),
    "twice as many labels": (partial(_counted, 2), REORDERED),
    "without its padding": (_trimmed, REORDERED),
    "evaluated without losses of routers": (_evaluated, REORDERED),
    "trained after an evaluation": (_after_evaluation, EQUAL),
    "no label": (_unlabelled, EQUAL),
    "a tuple": (_as_tuple, EQUAL),
    "states by configuration": (_states_by_configuration, EQUAL),
    "logits_to_keep": (_last_logits, REORDERED),
    "more words": (_resized, REORDERED),
    "use_cache by default": (_cache_by_default, REORDERED),
    "checkpointed": (_checkpointed, REORDERED),
    "gradients": (_finite, EQUAL),
    "float32": (_float32, EQUAL),
    "bfloat16": (partial(_narrow, torch.bfloat16, False), EQUAL),
    "float16": (partial(_narrow, torch.float16, False), EQUAL),
    "autocast": (partial(_narrow, torch.bfloat16, True), EQUAL),
    "generated with a cache": (_generated, REORDERED),
    **SAVED,
}
