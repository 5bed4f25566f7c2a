"""The part of a project's configuration that the compiler needs; `project.config` reads it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of `[tool.patchgen]` that changes the text of an output.

    All of it is part of the cache key.  `flatten` names packages whose classes are flattened beside
    those of `transformers.models` and `patchgen.parts`.  `decorators` pairs a decorator of a class
    with the method whose override takes the decorator away.
    """

    flatten: tuple[str, ...] = ()
    formatter: str = "ruff"
    line_length: int = 119
    profile: str = "strict"
    decorators: tuple[tuple[str, str], ...] = ()
