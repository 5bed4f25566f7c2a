"""Answer `patchgen new`: the text of a modular file, or the reasons why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen.author.anatomy.module import Module, find_module, open_module
from patchgen.author.declare.checkpoint import checkpoint
from patchgen.author.declare.flash import flash
from patchgen.author.declare.grouped import flex, grouped
from patchgen.author.declare.liger import liger
from patchgen.author.declare.loss import loss
from patchgen.author.declare.moe import moe
from patchgen.author.declare.norm import norm
from patchgen.author.declare.sdpa import sdpa
from patchgen.author.declare.variant import Contribution, Draft, Writer, write
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, did_you_mean
from patchgen.syntax.locate import Environment

WRITERS: Mapping[str, Writer] = {
    "sdpa": sdpa,
    "checkpoint": checkpoint,
    "loss": loss,
    "norm": norm,
    "moe": moe,
    "grouped": grouped,
    "flash": flash,
    "flex": flex,
    "liger": liger,
}

# Names of several parts.
TOGETHER: Mapping[str, tuple[str, ...]] = {"fast": ("loss", "flash", "norm")}


@dataclass(frozen=True, slots=True)
class Answer:
    """The modular file for `module`: its text before formatting, empty if nothing is left to write.

    `left_out` are redundant parts.
    """

    module: Module
    text: str
    parts: tuple[Contribution, ...]
    left_out: tuple[Contribution, ...]

    @property
    def draft(self) -> Draft:
        names = dict.fromkeys(item.name for part in self.parts for item in part.declared)
        parts = tuple(part.part for part in self.parts)
        return Draft(self.module.alias, self.text, parts, tuple(names))


def answer(env: Environment, model: str, parts: Sequence[str], *, force: bool = False) -> Answer:
    """The modular file that puts `parts` into `model`.

    Raises PatchgenError PG801 for an unknown model and PG802 for an unknown part, and Refusals with
    a PG803 for each reason why a part cannot be written.
    """
    module = open_module(env, find_module(env, model))
    single = [name for part in parts for name in TOGETHER.get(part, (part,))]
    for part in single:
        if part not in WRITERS:
            hint = did_you_mean(part, [*WRITERS, *TOGETHER]) or f"there are {', '.join(WRITERS)}"
            raise PatchgenError("PG802", Location(part), "names no part", hint)
    contributions = [WRITERS[part](module) for part in dict.fromkeys(single)]
    written = tuple(c for c in contributions if force or not c.redundant)
    problems = [
        Problem(missing.at, "PG803", f"{part.part}: {missing.what}", missing.hint)
        for part in written
        for missing in part.missing
        if missing.fatal
    ]
    nothing = [part for part in written if part.redundant and not part.declared]
    at, what = Location(module.source.path), "transformers has it here, and the part writes nothing"
    problems += [Problem(at, "PG803", f"{part.part}: {what}") for part in nothing]
    if problems:
        fitting = [part.part for part in written if not any(m.fatal for m in part.missing)]
        others = [f"the others fit: --with {','.join(fitting)}"] if fitting else []
        hints = ["; ".join([*filter(None, [p.hint]), *others]) for p in problems]
        raise Refusals([replace(p, hint=h) for p, h in zip(problems, hints, strict=True)])
    left_out = tuple(c for c in contributions if c not in written)
    return Answer(module, write(written, module) if written else "", written, left_out)
