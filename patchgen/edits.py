"""The words with which a modular file replaces a part of a parent's method.

    class LlamaMLP(llama.LlamaMLP):
        @edit("forward")                # the parent's method; must match once, or `count` times
        def clamp_the_gate(self, x, gate: Hole):
            with old:
                self.act_fn(gate)
            with new:
                self.act_fn(gate.clamp(max=7.0))

The converter reads the function; nothing runs it.  Its parameters name identifiers of the parent's
method; one annotated `Hole` stands for any expression, and for the same one under `new`.  `...`
under `old` matches any further arguments of a call, or any run of statements, and stands for them
under `new`.  `with new: pass` deletes; `with before:` and `with after:` insert, and leave what
matched.  An edit may have several such pairs.  They may stand under `while ...:`, for any loop
around them, so that they can use `break` and `continue`.  An edit with `await` in it is an `async
def`.

Parameters change the signature, too: `factor` is added, `mask` is removed, `dim` has another
default.

    @edit("forward")
    def scale(self, y, mask: Old, factor: New[float] = 1.0, dim=-2):
        with old:
            return y
        with new:
            return y * factor

An added parameter stands behind the others.  With `*rest: Hole`, which stands for the method's
other parameters, it stands behind the one that is listed before it; `mask=...` lists one with a
default.

    def scale(self, x, factor: New[float] = 1.0, mask=..., *rest: Hole):

`**kwargs: New` adds `**kwargs` to a method that has none.

Importing a modular file marks its edits and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

__all__ = ["Edit", "Hole", "New", "Old", "after", "before", "edit", "new", "old"]

# `Any` to a type checker: the expression that a hole stands for has the type that its place wants.
Hole: TypeAlias = Any
# A parameter that the method gets, of type `T`, and one that it loses.
T = TypeVar("T")
New: TypeAlias = Annotated[T, "new"]
Old: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Edit:
    """A declared edit, as it stands in the class body of an imported modular file."""

    method: str
    count: int
    declaration: Callable[..., object]

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        name = self.declaration.__qualname__
        raise TypeError(f"{name} edits {self.method!r} when it is flattened; it cannot be called")


def edit(method: str, *, count: int = 1) -> Callable[[Callable[..., object]], Edit]:
    """Declare an edit of the parent's `method`.

    It changes the `count` places that match the function's `with old:`.
    """
    if count < 1:
        raise ValueError(f"an edit matches at least once, not {count} times")
    return lambda declaration: Edit(method, count, declaration)


@dataclass(frozen=True, slots=True)
class _Part:
    """What `with old:` and the others name; entering one means that an edit is being run."""

    name: str

    def __enter__(self) -> None:  # not NoReturn: checkers would take the body for unreachable
        raise TypeError(f"`with {self.name}:` is read by the converter and never run")

    def __exit__(self, *error: object) -> None:
        return None


old = _Part("old")
new = _Part("new")
before = _Part("before")
after = _Part("after")
