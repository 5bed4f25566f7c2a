"""`patchgen.register`: a variant behind transformers' auto classes, and back.

A variant with a `model_type` of its own is registered as any model is.  One that keeps its parent's
configuration takes the parent's place for the whole process, since the auto classes know a model by
its configuration: one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from transformers import CONFIG_MAPPING
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

from patchgen.runtime.classes import Entries, auto_entries, has_own_configuration, pairs
from patchgen.runtime.variants import Variant, find_variant

_ABSENT = object()
_standing: dict[Any, Registration] = {}  # by configuration class


@dataclass(eq=False)
class Registration:
    """A registration.  It lasts until `undo`, or until the end of its `with` block."""

    variant: Variant
    configurations: tuple[Any, ...]
    _before: list[tuple[dict[Any, Any], Any, Any]] = field(default_factory=list, repr=False)

    def undo(self) -> None:
        """Restore the auto classes.  A second call does nothing."""
        while self._before:
            content, key, value = self._before.pop()
            if value is _ABSENT:
                content.pop(key, None)
            else:
                content[key] = value
        for configuration in self.configurations:
            if _standing.get(configuration) is self:
                del _standing[configuration]

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def _put(self, mapping: Any, key: Any, value: Any) -> None:
        # The auto classes have a public `register`, and nothing to undo it.
        content = mapping._extra_content
        self._before.append((content, key, content.get(key, _ABSENT)))
        content[key] = value


def register(variant: str) -> Registration:
    """Let `AutoModel...`, and its users such as pipelines, build the variant of that name.

    ValueError where there is none, or where one stands already for the same configuration: it is to
    be undone first.
    """
    source = find_variant(variant)
    entries = auto_entries(source)
    built: dict[Any, None] = {}
    for by_config in entries.values():
        built.update(dict.fromkeys(by_config))
    configurations = tuple(built)
    if not configurations:
        raise ValueError(
            f"no auto class builds {source.parent}, and so none can build {source.name}"
        )
    for configuration in configurations:
        if configuration in _standing:
            first = _standing[configuration].variant.name
            raise ValueError(
                f"{configuration.__name__} is taken by {first}, "
                "and auto classes build one model for a configuration; "
                f"undo that first: what register({first!r}) returned has .undo()"
            )
    entry = Registration(source, configurations)
    _refuse_taken_types(entry)
    _put_all(entry, entries)
    _standing.update(dict.fromkeys(configurations, entry))
    return entry


def _put_all(entry: Registration, entries: Entries) -> None:
    for new, parents in _own_types(entry.variant).items():
        entry._put(CONFIG_MAPPING, new.model_type, new)
        if parents in TOKENIZER_MAPPING:
            entry._put(TOKENIZER_MAPPING, new, TOKENIZER_MAPPING[parents])
    for auto, by_config in entries.items():
        mapping = auto._model_mapping
        for configuration, models in by_config.items():
            value = models[0] if len(models) == 1 else models
            entry._put(mapping, configuration, value)


def _own_types(variant: Variant) -> dict[Any, Any]:
    """The parent's configuration class for each one that the variant brings."""
    types = {}
    for model, parent in pairs(variant):
        if has_own_configuration(model):
            types[model.config_class] = parent.config_class
    return types


def _refuse_taken_types(entry: Registration) -> None:
    for new in _own_types(entry.variant):
        if new.model_type in CONFIG_MAPPING:
            there = CONFIG_MAPPING[new.model_type]
            raise ValueError(
                f"the model type {new.model_type} is {there.__module__}.{there.__name__}'s already"
            )
