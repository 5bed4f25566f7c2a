"""Answer `patchgen new`: the text of a modular file, or the reasons why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.author.anatomy.module import Module, find_module, open_module
from patchgen.author.declare.registry import OFFERED, PARTS, writers
from patchgen.author.declare.variant import Contribution, Draft, write
from patchgen.syntax.errors import Location, PatchgenError, Problem, Refusals, did_you_mean
from patchgen.syntax.locate import Environment

# Parts of an earlier version.
OLD = {"liger": "it is `--with kernels,loss` now"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The modular file for `module`: its text before formatting, empty if nothing is left to write.

    `ending` ends the variant's name.  `left_out` are redundant parts, and those of a sum that do
    not fit.
    """

    module: Module
    ending: str
    text: str
    parts: tuple[Contribution, ...]
    left_out: tuple[Contribution, ...]

    @property
    def draft(self) -> Draft:
        names = dict.fromkeys(item.name for part in self.parts for item in part.declared)
        parts = tuple(part.part for part in self.parts)
        return Draft(self.module.alias, self.ending, self.text, parts, tuple(names))


def answer(env: Environment, model: str, parts: Sequence[str], *, force: bool = False) -> Answer:
    """The modular file that puts `parts` into `model`.

    Of a sum such as "fast" those parts are written that fit.  Raises PatchgenError PG801 for an
    unknown model and PG802 for an unknown part, and Refusals with a PG803 for each reason why a
    part that was asked for by name, or all of a sum, cannot be written.
    """
    return answer_for(open_module(env, find_module(env, model)), parts, force=force)


def answer_for(module: Module, parts: Sequence[str], *, force: bool = False) -> Answer:
    """The same for a module that is open.  Raises all but PG801."""
    written, left_out, refused = [], [], []
    for part in _contributions(module, parts):
        by_name = part.part in parts
        if part.redundant and not (force and by_name):
            left_out.append(part)
        elif part.fits:
            written.append(part)
        elif by_name:
            refused.append(part)
        else:
            left_out.append(part)
    if not written and not all(part.redundant for part in left_out):
        # Nothing of a sum fits.
        refused += [part for part in left_out if not part.redundant]
    if refused:
        raise Refusals(_reasons(module, refused, written))
    has_sum = any(PARTS[part].sum_of for part in parts)
    # A new model is called by its own type: `llama_mixture`.
    names = [part.part if part.model is None else part.model.ending for part in written]
    ending = "_".join(parts if has_sum else names)
    # Who asks for a sum has not said which parts it has.
    explained = left_out if has_sum else []
    text = write(written, explained, module) if written else ""
    return Answer(module, ending, text, tuple(written), tuple(left_out))


def names_of(parts: str | Sequence[str]) -> list[str]:
    """The names in a text with commas, or in a list."""
    listed = parts.split(",") if isinstance(parts, str) else parts
    return [name.strip() for name in listed if name.strip()]


def require_parts(reply: Answer, model: str) -> None:
    """Raise PatchgenError PG803 where nothing is left to write, with the reasons."""
    if not reply.parts:
        reasons = "; ".join(f"{part.part}: {part.why_left_out}" for part in reply.left_out)
        raise PatchgenError("PG803", Location(model), f"nothing is left to write: {reasons}")


def _contributions(module: Module, names: Sequence[str]) -> list[Contribution]:
    """What the parts `names` say of `module`, and those of which some are the sum."""
    known = writers()
    offered = [part.name for part in OFFERED]
    singles: list[str] = []
    for name in names:
        if name not in offered:
            every = f"there are {', '.join(offered)}"
            hint = OLD.get(name) or did_you_mean(name, offered) or every
            raise PatchgenError("PG802", Location(name), "names no part", hint)
        singles += PARTS[name].sum_of or [name]
    parts = [known[name](module) for name in dict.fromkeys(singles)]
    included: set[str] = set()
    for part in parts:
        if part.fits:
            included.update(PARTS[part.part].includes)
    return [part for part in parts if part.part in names or part.part not in included]


def _reasons(
    module: Module, refused: Sequence[Contribution], written: Sequence[Contribution]
) -> list[Problem]:
    """A problem for each reason why one of `refused` cannot be written."""
    fitting = ",".join(part.part for part in written)
    others = f"the others fit: --with {fitting}" if fitting else ""
    problems = []
    for part in refused:
        for missing in part.missing:
            if missing.fatal:
                hint = "; ".join(filter(None, [missing.hint, others]))
                problems.append(Problem(missing.at, "PG803", f"{part.part}: {missing.what}", hint))
        if part.redundant:
            what = f"{part.part}: transformers has it here, and the part writes nothing"
            problems.append(Problem(Location(module.source.path), "PG803", what, others))
    return problems
