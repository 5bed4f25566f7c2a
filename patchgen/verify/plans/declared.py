"""Check the lists of names that a model carries beside its plans.

These are classes that stay on one device (`_no_split_modules`), weights that are tied or kept in
float32, modules whose outputs are recorded, and conversions of checkpoint names.  Patterns of keys
that a checkpoint may lack or have in addition serve other checkpoints and are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from patchgen.verify.plans.finding import Finding


def declared_findings(model: Any) -> Iterator[Finding]:
    """Of each list, what names nothing."""
    names = all_names(model)
    for kind, rule, fault in declared_names(model):
        if what := fault(model, names):
            yield Finding(kind, rule, "PG844", what)


Fault = Callable[[Any, set[str]], str]


def declared_names(model: Any) -> tuple[tuple[str, str, Fault], ...]:
    """Each name, the kind of the list that it is in, and what finds its fault."""
    return (
        *(
            ("no_split", name, _no_class(name))
            for name in sorted(getattr(model, "_no_split_modules", None) or ())
        ),
        *(
            ("tied", f"{target} to {source}", _not_tied(target, source))
            for target, source in sorted(_tied(model).items())
        ),
        *(
            ("float32", pattern, _no_match(_glob(pattern)))
            for listed in ("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict")
            for pattern in sorted(getattr(model, listed, None) or ())
        ),
        *(("recorded", name, _no_recorded(kind)) for name, kind in recorded(model)),
    )


def all_names(model: Any) -> set[str]:
    """Of parameters and buffers, tied ones under each of their names."""
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} | {
        name for name, _ in model.named_buffers(remove_duplicate=False)
    }


def _no_class(name: str) -> Fault:
    def fault(model: Any, names: set[str]) -> str:
        known = {type(module).__name__ for module in model.modules()}
        return "" if name in known else "no module is of this class"

    return fault


def _no_match(pattern: str) -> Fault:
    def fault(model: Any, names: set[str]) -> str:
        return "" if any(re.search(pattern, name) for name in names) else "no weight is called so"

    return fault


def _glob(pattern: str) -> str:
    return pattern.replace(
        "*", ".*"
    )  # as transformers.core_model_loading.build_glob_alternation, 5.23


def _tied(model: Any) -> dict[str, str]:
    tied = getattr(type(model), "_tied_weights_keys", None)
    # A list is what transformers had before its fifth version, and what remote code still has.
    return dict(tied) if isinstance(tied, dict) else {}


def _not_tied(target: str, source: str) -> Fault:
    def fault(model: Any, names: set[str]) -> str:
        targets = [name for name in sorted(names) if re.search(f"^{target}", name)]
        if not targets:
            return "no weight is called so"
        if not any(re.search(f"^{source}", name) for name in names):
            return f"no weight is called {source}"
        expanded = getattr(model, "all_tied_weights_keys", None) or {}
        for ours in targets:
            theirs = expanded.get(ours)
            if theirs and _weight(model, ours) is not _weight(model, theirs):
                return f"{ours} is not {theirs}"
        return ""

    return fault


def _weight(model: Any, name: str) -> Any:
    owner, _, own = name.rpartition(".")
    return getattr(model.get_submodule(owner), own)


def recorded(model: Any) -> Iterator[tuple[str, type]]:
    """The outputs that the base model records, each with the class of module that gives it."""
    outputs = getattr(getattr(model, "base_model", model), "_can_record_outputs", None) or {}
    for name, kinds in outputs.items():
        for each in kinds if isinstance(kinds, list | tuple) else (kinds,):
            kind = getattr(each, "target_class", each)
            if isinstance(kind, type):
                yield name, kind


def _no_recorded(kind: type) -> Fault:
    def fault(model: Any, names: set[str]) -> str:
        return (
            ""
            if any(isinstance(each, kind) for each in model.modules())
            else f"no module is a {kind.__name__}"
        )

    return fault


# --- conversions of checkpoints


def conversions(model: Any) -> dict[str, str]:
    """How transformers converts checkpoint names, each with a pattern of the model's names."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
    except ImportError:  # transformers had none in its fifth version's beginning
        return {}
    return {
        f"{', '.join(_patterns(each.source_patterns))} to {target}": _as_regex(target)
        for each in get_model_conversion_mapping(model, add_legacy=False)
        for target in _patterns(each.target_patterns)
    }


def lost_conversions(model: Any, parent: Any) -> Iterator[Finding]:
    """Conversions that the parent has and this model lacks, and its own that lead nowhere.

    A conversion whose weights the parent lacks is for other sizes.  If only this model lacks the
    weights, it has others in their place: a mixture has no FFN.
    """
    theirs, ours, names = conversions(parent), conversions(model), all_names(model)
    for conversion, pattern in theirs.items():
        if conversion not in ours and any(
            re.search(pattern, name) for name in names & all_names(parent)
        ):
            yield Finding(
                "converted",
                conversion,
                "PG844",
                "is done for the parent's checkpoints, and not here",
            )
    own = {conversion: pattern for conversion, pattern in ours.items() if conversion not in theirs}
    if own and not any(re.search(pattern, name) for pattern in own.values() for name in names):
        yield Finding("converted", next(iter(own)), "PG844", "no weight is called so")


def _patterns(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _as_regex(target: str) -> str:
    """A target is a piece of a name; `\\1` stands for what its source found."""
    bare = target.removeprefix("^").removesuffix("$")
    return ".*".join(re.escape(piece) for piece in re.split(r"\\\d|\*|\(.*?\)", bare))
