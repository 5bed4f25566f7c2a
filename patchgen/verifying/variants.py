"""What there is to verify: the variants in patchgen.lock, and how much is run of each.

Read from the lock and from the texts of outputs and diffs; nothing is imported, so a process that
starts a child needs no torch.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.author.declare.registry import PARTS
from patchgen.project.config import find_config
from patchgen.project.drift import find_recorded
from patchgen.project.lock import Record, read_lock, shorten, split_marks
from patchgen.project.places import LOCK
from patchgen.project.release import describe_another_release
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import make_environment

DTYPES = ("float64", "float32", "bfloat16")
# Of the processor, for one variant, unless everything is asked for: a minute with what is begun.
SECONDS = 50.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Which cases run.

    `full` adds every head, inductor and more ways to generate.  `lines` records which changed lines
    run.  `mutants` is the number of errors planted in them; None plants all that can be made.
    After `seconds` of the processor's time nothing more is begun.  `seed` draws weights, inputs and
    dropout.
    """

    full: bool = False
    dtypes: tuple[str, ...] = DTYPES
    lines: bool = False
    mutants: int | None = 0
    seconds: float | None = None
    seed: int = 0


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def find_added_lines(diff: str) -> frozenset[int]:
    return frozenset(new for sign, _, new in _marked(diff) if sign == "+")


def find_touched_lines(diff: str, *, of_old: bool = False) -> frozenset[int]:
    """Those that a unified diff adds to or removes from a file, and what stands in their place."""
    return frozenset(old if of_old else new for _, old, new in _marked(diff))


def _marked(diff: str) -> Iterator[tuple[str, int, int]]:
    """The sign of each line that is added or removed, and where that is in both files."""
    old = new = 0
    for line in diff.split("\n"):
        begins = _HUNK.match(line)
        if begins:
            old = int(begins[1])
            new = int(begins[2])
        elif not new or line.startswith("\\"):
            continue  # the names of both files, and a missing end of line
        else:
            if line.startswith(("+", "-")):
                yield line[0], old, new
            old += not line.startswith("+")
            new += not line.startswith("-")


def changes_of(output: Path, text: str, parts: Collection[str]) -> tuple[str, ...]:
    """The part checks that the diff beside `output` asks for; `text` is the output's text."""
    diff = output.with_suffix(".diff")
    if not diff.is_file():
        return ()
    lines = text.splitlines()
    changed = find_added_lines(disk.text_of(diff))
    added = [lines[number - 1].strip() for number in changed if number <= len(lines)]
    stated = set(parts)
    for name in parts:
        if name in PARTS:
            stated.update(PARTS[name].covers)
    changes: list[str] = []
    for part in PARTS.values():
        if not part.mark or part.name in stated:
            continue
        if any(re.match(part.mark, line) for line in added):
            changes.append(part.name)
    return tuple(changes)


# What a modular file declares, as plain values that no output gets (see `Variant`).
DIFFERS, EQUAL_IF = "__differs__", "__equal_if__"
MODES, SETTING = ("training", "eval"), "config."
CODE = "patchgen.parts."
_HEAD = re.compile(r"(For|LMHead|DoubleHeads|Model$)")


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant, as the lock records it."""

    name: str  # "llama_loss"
    module: str  # "generated.llama.modeling_llama_loss"
    parent: str  # "transformers.models.llama.modeling_llama"
    parts: tuple[str, ...]  # "sdpa"
    # Public model classes: the first with a loss comes first, the base model second.
    heads: tuple[str, ...]
    home: str  # the folder that the module is imported from
    modular: str = ""  # as shown
    changes: tuple[str, ...] = ()  # what its diff turns on without a part: "checkpoint"
    edited: bool = False  # the output is not what the lock records
    another_release: str = ""  # what is to be said of one that was made for another release
    # `__differs__` of the modular file: what differs on purpose, and why.  A class: the parent gets
    # it too, so that all the rest has to be equal.  "training", "eval": nothing is compared with
    # the parent there.  "config.NAME": nor where a case changes this setting.
    differs: tuple[tuple[str, str], ...] = ()
    # `__equal_if__`: the values of settings ("config.NAME") and parameters (an ending of their
    # names) with which the variant equals the parent itself.
    equal_if: tuple[tuple[str, Any], ...] = ()
    # What stands in the text of every case, as `Scenario.ways` name it: "images".
    in_text: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path(self.home, *self.module.split(".")).with_suffix(".py")

    @property
    def checked_parts(self) -> tuple[str, ...]:
        """The names of all part checks that apply: its parts, and changes without a part."""
        return (*self.parts, *self.changes)

    @property
    def replaced(self) -> tuple[str, ...]:
        names = (name for name, _ in self.differs)
        return tuple(n for n in names if n not in MODES and not n.startswith(SETTING))


def find_variants(home: Path, wanted: Iterable[str] = ()) -> tuple[Variant, ...]:
    """The variants recorded at `home`, or those that `wanted` names.

    Raises PatchgenError PG916 for a name of none, and PG917 where one cannot be compared.
    """
    records = read_lock(home / LOCK)
    outputs = [output for output in records if Path(output).name.startswith("modeling_")]
    variants = [records[output] for output in sorted(outputs)]
    if not variants:
        at = Location(str(home / LOCK))
        raise PatchgenError("PG917", at, "records no variant", "run patchgen convert")
    known = [record for record in variants if (home / record.output).is_file()]
    chosen: dict[str, Record] = {}
    for name in wanted:
        found = [record for record in known if _is_named(record, name, home)]
        if not found:
            what = f"is no variant that {LOCK} records"
            hint = did_you_mean(name, map(_name_of, known))
            raise PatchgenError("PG916", Location(name), what, hint)
        for record in found:
            chosen[record.output] = record
    if len(known) < len(variants) and not chosen:
        missing = next(record.output for record in variants if record not in known)
        what = f"is recorded in {LOCK}, and is not there"
        raise PatchgenError("PG917", Location(missing), what, "run patchgen convert")
    listed = [*chosen.values()]
    if not listed:
        listed = [record for record in known if _models_of(record)] or known
    return tuple(describe_variant(record, home) for record in listed)


def _models_of(record: Record) -> Counter[str]:
    """The modeling files of transformers with parents of the output, and how many each has."""
    return Counter(
        {
            module: len(split_marks(marks))
            for module, marks in record.parents.items()
            if module.startswith("transformers.models.") and ".modeling_" in module
        }
    )


def home_of(names: Iterable[str]) -> Path:
    """The project of the first path in `names`, or of the working directory if there is none."""
    paths = [Path(name).resolve() for name in names if Path(name).exists()]
    starts = [path if path.is_dir() else path.parent for path in paths[:1]]
    return find_config(starts or [Path.cwd()]).home


def describe_variant(record: Record, home: Path) -> Variant:
    models = _models_of(record)
    if not models:
        what = "has no parent in transformers that it could be compared with"
        raise PatchgenError("PG917", Location(_name_of(record)), what)
    env = make_environment(home)
    parts: set[str] = set()
    for module in record.parents:
        if module.startswith(CODE):
            # Of a file that is another by now, nobody knows which definitions were used.
            names = find_recorded(record, module, env) or [f"{module}."]
            parts.update(filter(None, [_part_of(name.removeprefix(CODE)) for name in names]))
    output = home / record.output
    text = disk.text_of(output)
    return Variant(
        _name_of(record),
        record.output.removesuffix(".py").replace("/", "."),
        max(models, key=lambda name: (models[name], name)),
        tuple(sorted(parts)),
        find_heads(text),
        str(home),
        record.modular,
        changes_of(output, text, parts),
        edited=shorten(disk.digest_of_data(output)) != record.digest,
        another_release=describe_another_release(
            output.name, record.made_by, [*models], record.reads, env
        ),
        **_read_declared(home / record.modular, text),
    )


def _part_of(name: str) -> str:
    """The part that code of `patchgen.parts` belongs to; "" if it lends that to other parts."""
    part, _, rest = name.partition(".")
    lends = PARTS[part].lends if part in PARTS else ()
    return "" if rest.startswith(lends) else part


def _read_declared(modular: Path, output: str) -> dict[str, Any]:
    """See `Variant.differs`.  Raises PG917 for what is no plain value, or names nothing."""
    values: dict[str, dict[str, Any]] = {DIFFERS: {}, EQUAL_IF: {}}
    text = disk.text_of(modular) if modular.is_file() else ""
    if DIFFERS in text:
        for node in ast.parse(text).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in values:
                    try:
                        values[name] = dict(ast.literal_eval(value))
                    except (TypeError, ValueError) as error:
                        at = Location(modular.name, node.lineno)
                        what = f"{name} is no dictionary of plain values"
                        raise PatchgenError("PG917", at, what) from error
    for name in values[DIFFERS]:
        is_class = f"\nclass {name}(" in f"\n{output}"
        if not (is_class or name in MODES or name.startswith(SETTING)):
            what = f"{DIFFERS} names {name}, which is no class of its output"
            what += ', and neither "training", "eval" nor "config.NAME"'
            raise PatchgenError("PG917", Location(modular.name), what)
    return {"differs": (*values[DIFFERS].items(),), "equal_if": (*values[EQUAL_IF].items(),)}


def find_heads(text: str) -> tuple[str, ...]:
    """The public model classes of a module, heads of language models first."""
    bases: list[str] = []
    heads: list[str] = []
    for name in _listed(text):
        if not _HEAD.search(name) or name.endswith("PreTrainedModel"):
            continue
        is_base = name.endswith("Model") and not re.search("LMHead|DoubleHeads", name)
        (bases if is_base else heads).append(name)
    ranks = list(_RANKS)
    if "pixel_values" in text:
        ranks.remove(_SEES_IMAGES)

    def rank(name: str) -> int:
        endings = (place for place, ending in enumerate(ranks) if name.endswith(ending))
        return next(endings, len(ranks))

    bases.sort(key=len)
    heads.sort(key=rank)
    return (*heads[:1], *bases, *heads[1:])


def find_towers(text: str) -> tuple[str, ...]:
    """The public model classes that are no heads, such as VoxtralEncoder."""
    listed = [name for name in _listed(text) if not _HEAD.search(name)]
    return tuple(name for name in listed if f"\nclass {name}(" in text and "Config" not in name)


def _listed(text: str) -> list[str]:
    """The models in `__all__`, the last statement of a modeling module: parsing all takes long."""
    _, assigned, rest = f"\n{text}".rpartition("\n__all__ = ")
    if not assigned:
        return _find_models(text)
    first, *_ = ast.parse(f"__all__ = {rest}").body
    names = ast.literal_eval(first.value) if isinstance(first, ast.Assign) else ()
    return [name for name in names if f"\nclass {name}(nn.Module)" not in text]  # no model


def _find_models(text: str) -> list[str]:
    """The models of a module without `__all__`: what derives from a `PreTrainedModel`."""
    models: list[str] = []
    for name, bases in re.findall(r"^class ([A-Za-z]\w*)\(([^)]*)\)", text, re.MULTILINE):
        if "PreTrainedModel" in bases or not {*re.findall(r"\w+", bases)}.isdisjoint(models):
            models.append(name)
    return models


# A class trained as a language model shows most of a variant.  A decoder's head on an encoder comes
# after the head that this is trained with.  Where images are seen, ForCausalLM does not see them.
_SEES_IMAGES = "ForConditionalGeneration"
_RANKS = ("ForMaskedLM", _SEES_IMAGES, "ForCausalLM", "LMHeadModel", "ForImageClassification")


def _name_of(record: Record) -> str:
    return Path(record.output).stem.removeprefix("modeling_")


def _is_named(record: Record, name: str, home: Path) -> bool:
    path = (Path.cwd() / name).resolve()
    places = [(home / each).resolve() for each in (record.output, record.modular)]
    is_within = any(path == place or path in place.parents for place in places)
    module = record.output.removesuffix(".py").replace("/", ".")
    return is_within or name in (_name_of(record), module)
