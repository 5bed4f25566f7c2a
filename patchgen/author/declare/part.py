"""A part: one change that fits many models, and all that patchgen knows of it.

Each part ends a file of this folder; `registry.py` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchgen.author.declare.variant import Writer
from patchgen.facts.published import Setting

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck


@dataclass(frozen=True, slots=True)
class Part:
    """`patchgen new MODEL --with NAME` writes it; its code is in `patchgen.parts.NAME`."""

    name: str
    # What `verify` checks of its variants.  A function, which imports torch only when it is called.
    # A sum has none.
    check: Callable[[], PartCheck] | None = None
    help: str = ""  # a line for `patchgen new --help`
    # What it declares for a model, or why nothing; None: variants have it by hand only.
    writer: Writer | None = None
    # In which steps its gain shows, as `patchgen.training.gain` names them; (): it is not for gain.
    counted: tuple[str, ...] = ()
    # Several parts under one name: those of them that fit the model are written.
    sum_of: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()  # parts whose declarations it has too: a sum takes it alone
    # How an added line begins by which a variant has it without its code, as a regular expression.
    mark: str = ""
    covers: tuple[str, ...] = ()  # the marked parts that its own check is enough for
    # Settings that its code reads and transformers does not know, each with values to try.
    settings: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    of_heads: bool = False  # it changes heads, each by itself, and no layer
    # Its mixins of heads that go on as the parent's do, so that they show nothing of the part.
    spares: tuple[str, ...] = ()
    # What other parts use of its code, as names begin: alone they do not make it a part.
    lends: tuple[str, ...] = ()
