"""Hold a model against itself after it was saved and loaded, by every route that users take.

Each function gives what is expected and what came back; `SAVED` has them with their names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, set_seed

from patchgen import disk
from patchgen.verifying.checks.context import CheckContext, NothingToCompare, Verdict, judge
from patchgen.verifying.differences import EQUAL, REORDERED, Bound, Observed
from patchgen.verifying.models.build import draw_weights, silence_progress
from patchgen.verifying.observe.step import run
from patchgen.verifying.parts import part_check
from patchgen.verifying.parts.part_check import load_strictly, nan_where_not_drawn, reload

Both = tuple[Observed, Observed]
Way = Callable[[CheckContext], Both | Verdict]
SHARD = "20KB"
NAMES_IT = ("architectures", "model_type", "_name_or_path", "auto_map")


def of_both(
    one: Observed, two: Observed, fits: Callable[[Tensor], bool] = lambda tensor: True
) -> Both:
    """What is in both, and fits."""
    names = [name for name in one if name in two and fits(one[name])]
    return {name: one[name] for name in names}, {name: two[name] for name in names}


@contextmanager
def _folder() -> Iterator[Path]:
    with disk.scratch() as folder, silence_progress(), nan_where_not_drawn():
        yield folder


def _load(kind: type[PreTrainedModel], folder: Path, like: PreTrainedModel) -> PreTrainedModel:
    attention = like.config._attn_implementation
    return kind.from_pretrained(folder, dtype=like.dtype, attn_implementation=attention)


def _sharded(context: CheckContext) -> Both:
    model = context.model()
    with _folder() as folder:
        model.save_pretrained(folder, max_shard_size=SHARD)
        if len(list(folder.glob("*.safetensors"))) < 2:
            raise NothingToCompare("it is smaller than two files")
        return model.state_dict(), _load(type(model), folder, model).state_dict()


def _built(context: CheckContext) -> Both:
    """Built from a configuration, saved, and loaded by the variant and by its parent."""
    pair = context.pair
    like = context.model()
    set_seed(0)
    attention = like.config._attn_implementation
    config = copy.deepcopy(like.config)
    built = type(like)._from_config(config, dtype=like.dtype, attn_implementation=attention)
    draw_weights(built, pair.seed + 1)  # what is not saved would come back as it was
    with _folder() as folder:
        built.save_pretrained(folder)
        expected = dict(built.state_dict())
        got = dict(_load(type(built), folder, like).state_dict())
        # The parent's own settings: it computes the same, unless a difference is declared.
        is_like_parent = pair.own_settings.isdisjoint(pair.changes) and not pair.variant.differs
        if pair.build is reload and is_like_parent:
            parent = load_strictly(pair.parent_class, folder, dtype=like.dtype)
            expected |= run(parent, context.given(), output_hidden_states=True)
            got |= run(built, context.given(), output_hidden_states=True)
    return expected, got


def _dtypes(context: CheckContext) -> Both:
    """Loaded in a narrow dtype, weights that the parent keeps wide are wide."""
    pair = context.pair
    found: list[Observed] = []
    with _folder() as folder:
        pair.plain_parent.save_pretrained(folder)
        for kind in (type(pair.plain_parent), type(context.model())):
            if kind is pair.variant_class and pair.build is not reload:
                raise NothingToCompare("its part converts the parent's weights")
            named = kind.from_pretrained(folder, dtype=torch.float16).named_parameters()
            found.append({name: torch.tensor(float(p.element_size())) for name, p in named})
    theirs, ours = found
    return of_both(theirs, ours)


def _as_configured(context: CheckContext) -> Verdict:
    """A model changes no setting of its configuration that the parent leaves."""
    models = context.pair.models(context.pair.routes[0], context.dtype)
    theirs, ours = (model.config.to_diff_dict() for model in models)
    changed = [n for n in theirs.keys() & ours.keys() if theirs[n] != ours[n]]
    wrong = [name for name in changed if name not in NAMES_IT and "implementation" not in name]
    return judge(not wrong, f"settings that it changed: {', '.join(sorted(wrong)) or 'none'}")


def _loaded_by_the_other(saved: str, context: CheckContext) -> Both:
    """A checkpoint of the head loaded by its base model, or of a base model by the head."""
    pair = context.pair
    model = context.model()
    parent = pair.plain_parent
    base = type(model.base_model)
    if base is type(model) or not issubclass(base, PreTrainedModel):
        if parent.base_model is not parent:
            raise ValueError("`base_model_prefix` names no model inside it, and the parent's does")
        raise NothingToCompare("it has no head")
    if saved == "the parent's base" and pair.build is not reload:
        return _converted(context)
    source = {"base": model.base_model, "head": model}.get(saved, parent.base_model)
    with _folder() as folder:
        source.save_pretrained(folder)
        loaded = _load(base if saved == "head" else type(model), folder, model)
    ours, theirs = (
        {n.removeprefix(f"{each.base_model_prefix}."): t for n, t in each.state_dict().items()}
        for each in (source.base_model, loaded.base_model)
    )
    if ours.keys().isdisjoint(theirs):
        raise NothingToCompare("both have no weight in common")
    return of_both(ours, theirs)


def _converted(context: CheckContext) -> Both:
    """What a part makes of the parent's checkpoint, it makes of that of the base model."""
    pair = context.pair
    like = context.model()
    made: list[Observed] = []
    parent = pair.plain_parent
    drawn: set[str] = set()
    for source in (parent, parent.base_model):
        with _folder() as folder:
            source.save_pretrained(folder)
            asked: Any = {"output_loading_info": True, "dtype": like.dtype}
            model, report = type(like).from_pretrained(folder, **asked)
        made.append(dict(model.base_model.state_dict()))
        if source is parent:
            drawn |= set(map(str, report["missing_keys"]))
    routers = {name.removeprefix(f"{like.base_model_prefix}.") for name in drawn}  # drawn anew
    whole, base = made
    return of_both({name: t for name, t in whole.items() if name not in routers}, base)


def _new_weights(context: CheckContext) -> Both:
    """What the parent lacks is drawn where the parent's checkpoint is loaded, and is saved."""
    pair = context.pair
    model = context.model()
    new = pair.new_parameters
    if not new:
        raise NothingToCompare("it has no parameters that its parent lacks")
    with _folder() as folder:
        pair.plain_parent.save_pretrained(folder / "parent")
        state = dict(_load(type(model), folder / "parent", model).named_parameters())
        if unset := [name for name in new if not state[name].isfinite().all()]:
            raise part_check.DoesNotLoad({"missing_keys": unset}, unset)
        model.save_pretrained(folder / "variant")
        again = _load(type(model), folder / "variant", model).state_dict()
        ours = model.state_dict()
    return {name: ours[name] for name in new}, {name: again[name] for name in new if name in again}


SAVED: Mapping[str, tuple[Way, Bound]] = {
    "dtypes of weights": (_dtypes, EQUAL),
    "as configured": (_as_configured, EQUAL),
    "saved in shards": (_sharded, EQUAL),
    "built, saved and loaded": (_built, REORDERED),
    "base into head": (partial(_loaded_by_the_other, "base"), EQUAL),
    "head into base": (partial(_loaded_by_the_other, "head"), EQUAL),
    "the parent's base into head": (partial(_loaded_by_the_other, "the parent's base"), EQUAL),
    "new parameters": (_new_weights, EQUAL),
}
