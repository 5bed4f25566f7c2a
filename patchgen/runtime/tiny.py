"""Configurations so small that every gradient of a model can be compared in float64."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

try:  # which names mean a size, in the models that it knows
    from optimum.utils import NormalizedConfigManager
except ImportError:
    NormalizedConfigManager = None

from patchgen.facts.families import FAMILIES, SET_BY_CHECKPOINTS
from patchgen.facts.sizes import (
    DEPTHS,
    EXPERTS_IN_GROUPS,
    FIRST_HEADS,
    FIRST_WIDTH,
    GROUPED,
    LARGE,
    MORE_SIZES,
    NORMALIZED,
    PLACES,
    SHRUNK,
    SIZES,
    STAGES,
    WIDEST,
    WIDTHS,
)

Changes = dict[str, Any]
OF_TEXTS = re.compile(r"_(text|talker)(_model)?$")  # types of what reads the text beside images


def tiny_config(
    model: str | type[PreTrainedConfig], dropout: float = 0.0, **changes: Any
) -> PreTrainedConfig:
    """A tiny configuration of a model type or class, with all dropout rates at `dropout`.

    A size is recognized by the names that transformers maps, that optimum knows or that
    `MORE_SIZES` has; any other large value by the ending of its name.  If the configuration refuses
    the sizes together, a few concessions are tried; else its first refusal is raised.
    """
    config_class = CONFIG_MAPPING[model] if isinstance(model, str) else model
    default = config_class()
    tiny = _find_changes(default, dropout)
    if default.is_encoder_decoder:
        # Checkpoints set what a decoder starts from; configurations do not.
        tiny = {"decoder_start_token_id": SIZES["pad_token_id"], **tiny}
    inner: Changes = {}
    outer: Changes = {}
    for name, value in changes.items():
        side = inner if "." in name else outer
        side[name] = value
    unknown = [name for name in outer if not _has(default, name)]
    for name in unknown:
        # A class that is given a configuration inside it calls that `config` too.
        owners = [part for part in default.sub_configs if _has(getattr(default, part), name)]
        if len(owners) == 1:
            inner[f"{owners[0]}.{name}"] = outer.pop(name)
    # A change may name a size by its other name: Qwen3-MoE's `num_experts` is `num_local_experts`.
    canonical = default.attribute_map.get
    changed = {canonical(name, name) for name in outer}
    tiny = {name: size for name, size in tiny.items() if canonical(name, name) not in changed}
    config = _build_accepted(default, tiny, outer)
    for name, value in inner.items():  # of a configuration inside it: "ffn_config.moe_top_k"
        path, _, last = name.rpartition(".")
        owner = operator.attrgetter(path)(config)
        setattr(owner, last, value)
    return config


def _build_accepted(default: PreTrainedConfig, tiny: Changes, wanted: Changes) -> PreTrainedConfig:
    """The configuration with the first concession that its class accepts."""
    concessions: tuple[Changes, ...] = (
        {},
        # A key head for every query head.
        _find_name(default, "num_key_value_heads", SIZES["num_attention_heads"]),
        # One expert for each token.
        _find_name(default, "num_experts_per_tok", 1),
        # Lists with one entry a layer, cut to the number of layers: their last entries, or first.
        _cut_layer_lists(default, slice(-SIZES["num_hidden_layers"], None)),
        _cut_layer_lists(default, slice(SIZES["num_hidden_layers"])),
    )
    refusals = []
    for concession in concessions:
        try:
            config = type(default)(**{**tiny, **concession, **wanted})
        except Exception as error:  # each configuration raises its own
            refusals.append(error)
            continue
        mixed = _mix_kinds(default, config)
        try:
            return type(default)(**{**mixed, **tiny, **concession, **wanted}) if mixed else config
        except Exception:
            return config
    raise refusals[0]


def _mix_kinds(default: PreTrainedConfig, config: PreTrainedConfig) -> Changes:
    """Lists of kinds of layers, of which `config` has too few layers: each fourth is global."""
    mixed: Changes = {}
    for name, value in _find_layer_lists(default):
        own = getattr(config, name, None)
        if isinstance(own, list) and _with_all_kinds(value, own) != own:
            mixed[name] = _with_all_kinds(value, own)
    return mixed


def _with_all_kinds(every: list[Any], few: list[Any]) -> list[Any]:
    """`few` entries of a list with one entry a layer; all kinds in turn, if some are lost."""
    are_words = all(isinstance(kind, str) for kind in every)
    are_flags = all(kind in (0, 1) for kind in every)
    if not are_words and not are_flags:
        return few
    layers = len(few)
    kinds = [*dict.fromkeys(every)]
    if len(kinds) > layers or {*kinds} <= {*few}:
        return few
    in_turn = itertools.cycle(kinds)
    return [*itertools.islice(in_turn, layers)]


def _find_name(config: PreTrainedConfig, name: str, value: Any) -> Changes:
    own = config.attribute_map.get(name, name)
    return {own: value} if _has(config, own) else {}


def _find_changes(default: PreTrainedConfig, dropout: float) -> Changes:
    """What to change in `default`, and in the configurations inside it."""
    family = FAMILIES.get(default.model_type, {})
    fixed = {**family, **SET_BY_CHECKPOINTS.get(default.model_type, {})}
    changes = _find_sizes(default)
    # No two rates are equal, so that one cannot stand for another.
    values = default.to_dict()
    rates = (name for name, value in values.items() if "drop" in name and isinstance(value, float))
    for place, rate in enumerate(rates):
        changes[rate] = dropout * (1 + place / 8)
    if isinstance(values.get("router_jitter_noise"), float):  # which each dtype draws otherwise
        changes["router_jitter_noise"] = 0.0
    rope = values.get("rope_parameters")
    if isinstance(rope, dict) and "rope_type" in rope and OF_TEXTS.search(default.model_type):
        changes["rope_parameters"] = _with_sections(rope)
    if "per_layer_config" in values:
        changes["per_layer_config"] = {}  # all layers of one kind
    if not _has(default, "depths"):  # else stages stay as many as they are
        changes |= _find_features(default, values.get("out_features"))
    if default.sub_configs:
        changes |= _find_placeholders(values)
    for name in default.sub_configs:
        part = getattr(default, name) if name not in fixed else None
        if isinstance(part, PreTrainedConfig):  # not all are there by default
            changes[name] = _shrink_part(part, dropout)
    return {**changes, **fixed}


def _find_features(default: PreTrainedConfig, features: list[Any] | None) -> Changes:
    """The last layers of a backbone whose stages they are, as many as it gives features of."""
    places = [str(name).removeprefix("stage") for name in features or []]
    if not places or not all(map(str.isdigit, places)):
        return {}
    stages = len(places)
    number = max(SIZES["num_hidden_layers"], stages)
    changes = _find_name(default, "num_hidden_layers", number)
    if not changes or max(map(int, places)) <= number:
        return {}
    last = range(number - stages + 1, number + 1)
    changes["out_features"] = [f"stage{place}" for place in last]
    changes["out_indices"] = [*last]
    return changes


def _find_placeholders(values: Changes) -> Changes:
    """Tokens of images and the like within the vocabulary, from its end, and tiny images."""
    vocabulary = SIZES["vocab_size"]
    outside = []
    for name in sorted(values):
        if not name.endswith(("_token_id", "_token_index")):
            continue
        token = values[name]
        is_placeholder = name.startswith(("image_token", "video_token", "audio_token"))
        if isinstance(token, int) and token >= vocabulary:
            outside.append(name)
        elif token is None and is_placeholder:
            outside.append(name)
    changes: Changes = {name: vocabulary - 1 - place for place, name in enumerate(outside)}
    if values.get("image_grid_pinpoints"):
        side = MORE_SIZES["image_size"]
        changes["image_grid_pinpoints"] = [[side, 2 * side], [2 * side, side]]
    return changes


def _shrink_part(part: PreTrainedConfig, dropout: float) -> PreTrainedConfig:
    kept = slice(-SIZES["num_hidden_layers"], None)
    tiny = {**part.to_dict(), **_cut_layer_lists(part, kept), **_find_changes(part, dropout)}
    rope = getattr(part, "rope_parameters", None)
    if isinstance(rope, dict) and "rope_type" in rope:
        tiny["rope_parameters"] = _with_sections(rope)
    return _build_accepted(part, tiny, {})


def _with_sections(rope: dict[str, Any]) -> dict[str, Any]:
    """With the frequencies for time, height and width.

    A model that does not tell these apart ignores them.
    """
    features = SIZES["hidden_size"] // SIZES["num_attention_heads"]
    frequencies = int(features * rope.get("partial_rotary_factor", 1.0)) // 2
    third = frequencies // 3
    return {**rope, "mrope_section": [frequencies - 2 * third, third, third]}


def _cut_layer_lists(default: PreTrainedConfig, kept: slice) -> Changes:
    lists = _find_layer_lists(default)
    return {name: _with_all_kinds(value, value[kept]) for name, value in lists}


def _find_layer_lists(default: PreTrainedConfig) -> list[tuple[str, list[Any]]]:
    """Lists with one entry a layer, by name; of stages there are as many as before."""
    layers = None if _has(default, "depths") else getattr(default, "num_hidden_layers", None)
    every = default.to_dict().items()
    return [(n, value) for n, value in every if isinstance(value, list) and len(value) == layers]


def _find_sizes(default: PreTrainedConfig) -> Changes:
    """The sizes that the configuration has.  Tables that know more about a name come last."""
    common = dict(SIZES)
    stages = _find_stages(default)
    if stages:
        common = {name: size for name, size in common.items() if not _is_of_stages(default, name)}
    if _has(default, "kv_lora_rank"):  # latent attention makes keys for every head
        common["num_key_value_heads"] = SIZES["num_attention_heads"]
    lists = _find_lists(default)
    wanted = {**_shrink_large(default), **_find_beside(default), **MORE_SIZES}
    wanted |= {**_find_optimum_sizes(default), **common, **lists, **stages, **_find_places(default)}
    if stages:
        del wanted["num_layers"]  # as many as there are stages
    if "embed_dim" in stages:
        del wanted["hidden_size"]  # the last width, which is made from the first
    # A size is set by its common name: setting the mapped name as well would set it twice.
    mapped = {default.attribute_map[name] for name in common if name in default.attribute_map}
    values = default.to_dict()
    sizes = {}
    for name, size in wanted.items():
        if _has(default, name) and name not in mapped:
            # As often as there are entries, if the configuration has a list there.
            is_list = isinstance(values.get(name), list | tuple) and not isinstance(size, list)
            sizes[name] = [size] * len(values[name]) if is_list else size
    return {**sizes, **_find_groups(default, sizes)}


def _find_stages(default: PreTrainedConfig) -> Changes:
    """As many stages as it has, of few blocks.  Without a list of widths each doubles the width."""
    values = default.to_dict()
    depths = values.get("depths")
    if not isinstance(depths, list | tuple) or _has_blocks(default):
        return {}
    stages: Changes = {
        "depths": [min(depth, 1 + (place == 0)) for place, depth in enumerate(depths)]
    }
    heads = values.get("num_heads")
    if isinstance(heads, list | tuple) and isinstance(values.get("embed_dim"), int):
        stages["num_heads"] = [FIRST_HEADS << place for place in range(len(heads))]
        stages["embed_dim"] = FIRST_WIDTH
    return {**STAGES, **stages}


def _is_of_stages(default: PreTrainedConfig, name: str) -> bool:
    """Whether a common name says how many stages there are, or has an entry for each."""
    own = default.attribute_map.get(name, name)
    is_number = isinstance(getattr(default, own, None), int)
    return name == "num_hidden_layers" or (name.startswith("num_") and not is_number)


def _find_lists(default: PreTrainedConfig) -> Changes:
    """Lists of widths, all divided by one number, so that what fits still does; and of depths."""
    lists = {name: value for name, value in default.to_dict().items() if _are_numbers(value)}
    divisor = _find_divisor(default)
    found: Changes = {}
    for name, value in lists.items():
        if DEPTHS.search(name):
            found[name] = [min(depth, 2) for depth in value]
        elif WIDTHS.search(name):
            found[name] = [_divide(width, divisor) for width in value]
    return found


def _find_beside(default: PreTrainedConfig) -> Changes:
    """Widths that stand alone beside lists of widths."""
    divisor = _find_divisor(default)
    return {
        name: _divide(value, divisor)
        for name, value in default.to_dict().items()
        if divisor > 1 and type(value) is int and value % divisor == 0 and WIDTHS.search(name)
    }


def _find_divisor(default: PreTrainedConfig) -> int:
    widest = 0
    for name, value in default.to_dict().items():
        if _are_numbers(value) and WIDTHS.search(name):
            widest = max(widest, *value)
    divisor = 1
    while widest > WIDEST * divisor and not _has_blocks(default):
        divisor *= 2
    return divisor


def _has_blocks(default: PreTrainedConfig) -> bool:
    """Whether it lists the widths of each block, which those of stages have to fit."""
    for value in default.to_dict().values():
        if isinstance(value, list | tuple):
            blocks = [each for each in value if isinstance(each, list | tuple)]
            if any(number > WIDEST for number in _numbers_in(blocks)):
                return True
    return False


def _numbers_in(value: Any) -> Iterator[int]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _numbers_in(each)
    elif isinstance(value, int):
        yield value


def _find_places(default: PreTrainedConfig) -> Changes:
    """The first layers in place of those that it does not have, in the same order."""
    layers = SIZES["num_hidden_layers"]
    found: Changes = {}
    for name, value in default.to_dict().items():
        if _are_numbers(value) and PLACES.search(name) and max(value) > layers:
            order = sorted(value)
            found[name] = [order.index(place) for place in value]
            if len(value) > layers and _has(default, "num_hidden_layers"):
                found["num_hidden_layers"] = len(value)
    return found


def _divide(width: int, divisor: int) -> int:
    """A multiple of four, unless it is a number of channels of an image."""
    return width if width < FIRST_WIDTH else -(-width // (4 * divisor)) * 4


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 1 and {*map(type, value)} == {int}


def _find_groups(default: PreTrainedConfig, sizes: Changes) -> Changes:
    """Groups of experts, and as many experts as they hold, where a router chooses groups first."""
    groups = {name: size for name, size in GROUPED.items() if _has(default, name)}
    if len(groups) < len(GROUPED):
        return {}
    for name, size in sizes.items():
        if name.endswith("experts") and size == SIZES["num_local_experts"]:
            groups[name] = EXPERTS_IN_GROUPS
    return groups


def _find_optimum_sizes(default: PreTrainedConfig) -> Changes:
    if NormalizedConfigManager is None or default.model_type not in NormalizedConfigManager._conf:
        return {}
    normal = NormalizedConfigManager.get_normalized_config_class(default.model_type)(default)
    values = default.to_dict()
    sizes = {}
    for name, key in NORMALIZED.items():
        own: Any = getattr(normal, name) if hasattr(type(normal), name) else None
        if isinstance(values.get(own), int):
            sizes[own] = SIZES[key]
    return sizes


def _shrink_large(default: PreTrainedConfig) -> Changes:
    """Sizes for large values whose names no table has; the last ending that fits decides."""
    sizes = {}
    for name, value in default.to_dict().items():
        if isinstance(value, int) and value > LARGE:
            for ending, size in SHRUNK.items():
                if re.search(ending, name):
                    sizes[name] = size
    return sizes


def _has(config: PreTrainedConfig, name: str) -> bool:
    # XLNet's longest sequence is a property that refuses to be set: it counts as absent.
    if isinstance(getattr(type(config), name, None), property):
        return False
    try:
        return hasattr(config, name)
    except Exception:  # Gemma 4 has values for each layer that cannot be read for all at once
        return True
