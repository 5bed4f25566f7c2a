"""`patchgen rescue`: from a file or folder written for transformers 4 to one that works today."""

from __future__ import annotations

import ast
import importlib.metadata
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libcst as cst

from patchgen import disk
from patchgen.author.adopt.releases import Release, order_of
from patchgen.rescuing.classes import Classes, caps_scores
from patchgen.rescuing.environment import compare, run
from patchgen.rescuing.port import Ported, port
from patchgen.rescuing.sources import PACKAGE, Sources, imports_of, source_of
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.shown import refuse_unseen

# What names of classes say, and the auto class that loads such a class; the first is verified.
AUTO = {
    "ForSeq2SeqLM": "AutoModelForSeq2SeqLM",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "Model": "AutoModel",
}
# What `config.json` says that is no argument of a configuration.
NOT_GIVEN = set("auto_map architectures transformers_version torch_dtype dtype model_type".split())
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx")


@dataclass(frozen=True)
class Repository:
    """The Python files by name, the settings of `config.json`, and the files that stay."""

    path: Path
    texts: Mapping[str, str]
    settings: Mapping[str, Any]
    beside: tuple[Path, ...] = ()


@dataclass
class Rescue:
    """What became of a repository: its new files, what was verified, and what is left."""

    release: str
    newest: str
    files: dict[str, Ported]
    auto_map: dict[str, str] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    loads: bool = False

    @property
    def texts(self) -> dict[str, str]:
        """The new files by their names."""
        return {name: ported.text for name, ported in self.files.items()}

    def data(self) -> dict[str, Any]:
        """The result as data for JSON."""
        changes = {}
        copied = {}
        for name, ported in self.files.items():
            changes[name] = [f"{note.line}: {note.what}: {note.why}" for note in ported.notes]
            copied[name] = dict(ported.copied)
        return {
            "from": self.release,
            "to": self.newest,
            "auto_map": self.auto_map,
            "loads": self.loads,
            "verified": self.verified,
            "left": self.left,
            "changes": changes,
            "copied": copied,
        }


def read_repository(path: Path) -> Repository:
    """The files of a repository, or a file and those beside it that it imports."""
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    texts: dict[str, str] = {}
    uses_transformers = False
    for file in files:
        refuse_unseen(file.name)
        text = texts[file.name] = _read(file)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            at = Location(str(file), getattr(error, "lineno", None) or 1, 1)
            raise PatchgenError("PG861", at, f"is no Python: {error}") from error
        uses_transformers |= any(imports_of(tree)) or "import transformers" in text
        if path.is_file():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                    other = path.parent / f"{node.module}.py"
                    if not other.is_file():
                        at = Location(str(file), node.lineno, node.col_offset + 1)
                        what = f"imports {other.name}, which is not beside it"
                        raise PatchgenError("PG861", at, what, "put it there, or name the folder")
                    if other not in files:
                        files.append(other)
    if not uses_transformers:
        what = "has no Python file that imports transformers"
        raise PatchgenError("PG861", Location(str(path)), what, "name a folder with modeling files")
    if path.is_file():
        return Repository(path, texts, read_settings(path.parent))
    return Repository(path, texts, read_settings(path), tuple(_beside(path)))


def read_settings(folder: Path) -> dict[str, Any]:
    """What `config.json` says, if there is one."""
    file = folder / "config.json"
    if not file.exists():
        return {}
    try:
        settings = json.loads(_read(file))
    except ValueError as error:
        raise PatchgenError("PG861", Location(str(file)), f"is no JSON: {error}") from error
    if not isinstance(settings, dict):
        raise PatchgenError("PG861", Location(str(file)), "is no JSON object")
    return settings


def _read(file: Path) -> str:
    disk.require_own(file, file.parent)
    try:
        return disk.read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise PatchgenError("PG861", Location(str(file)), f"cannot be read: {error}") from error


def release_of(repository: Repository, releases: Sequence[Release]) -> Release:
    """The release that a repository was written for.

    The one that `config.json` says, or the next newer one at hand; else the oldest that has every
    name that is imported, or the one that lacks the fewest.
    """
    old = [release for release in releases if release.order < (5,)]
    old.sort(key=lambda release: release.order)
    if not old:
        what = "no release before 5 is at hand"
        hint = "--from and --download fetch one"
        raise PatchgenError("PG807", Location("transformers"), what, hint)
    stated = str(repository.settings.get("transformers_version", ""))
    if stated.startswith("4"):
        return next((release for release in old if release.order >= order_of(stated)), old[-1])
    wanted: set[tuple[str, str]] = set()
    for text in repository.texts.values():
        for node in imports_of(ast.parse(text)):
            for alias in node.names:
                if alias.name != "*":
                    wanted.add((source_of(node), alias.name))

    def lacking(release: Release) -> int:
        sources = Sources(release.root(), release.version)
        return sum(not sources.has(module, name) for module, name in wanted)

    return min(old, key=lacking)


def auto_map_of(
    texts: Mapping[str, str], settings: Mapping[str, Any], given_texts: Mapping[str, str]
) -> dict[str, str]:
    """Which class each auto class loads: as `config.json` says, or by the names of the classes.

    Models are those of the given files; a configuration may be one that was copied.
    """
    classes = Classes()
    places: dict[str, str] = {}
    for file, text in sorted(texts.items()):
        classes.read(cst.parse_module(text))
        module = file.removesuffix(".py")
        for name in _classes_in(text):
            places[name] = f"{module}.{name}"
    models: dict[str, list[str]] = defaultdict(list)  # by auto class
    for text in given_texts.values():
        for name in _classes_in(text):
            auto = next((auto for part, auto in AUTO.items() if part in name), None)
            if auto is not None and classes.is_model(name) and "PreTrained" not in name:
                models[auto].append(name)
    configs = []
    for auto in AUTO.values():
        configs += [classes.value(name, "config_class") for name in models.get(auto, ())]
    configs += [name for name in places if classes.is_config(name) and "Onnx" not in name]
    auto_map = {}
    config = next((name for name in configs if name in places), None)
    if config is not None:
        auto_map["AutoConfig"] = places[config]
    for auto, names in models.items():
        auto_map[auto] = places[names[0]]
    stated = settings.get("auto_map") or {}
    for auto, reference in stated.items():
        is_text = isinstance(reference, str)  # perhaps `owner/name--module.Class`
        auto_map[auto] = reference.split("--")[-1] if is_text else reference
    return auto_map


def _classes_in(text: str) -> list[str]:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def rescue(
    repository: Repository,
    release: Release,
    home: Path | None,
    checkpoint: Path | None,
    *,
    verify: bool,
) -> Rescue:
    """Port the files, and run them; `home` is the environment of the old release, if any."""
    spec = importlib.metadata.distribution(PACKAGE)
    new = Sources(Path(str(spec.locate_file(""))), spec.version)
    old = Sources(release.root(), release.version)
    files = port(repository.texts, old, new, repository.settings)
    texts = {name: ported.text for name, ported in files.items()}
    auto_map = auto_map_of(texts, repository.settings, repository.texts)
    left: list[str] = []
    for ported in files.values():
        left += ported.left
    result = Rescue(release.version, new.version, files, auto_map, left=left)
    auto = next((auto for auto in AUTO.values() if auto in auto_map), None)
    if auto is None or "AutoConfig" not in auto_map:
        what = "has no class of a model, or none of its configuration, by their names"
        hint = "say in config.json, under auto_map, which they are"
        raise PatchgenError("PG861", Location(str(repository.path)), what, hint)
    if verify:
        _verify(result, repository, auto, home, checkpoint)
    return result


def _verify(
    result: Rescue, repository: Repository, auto: str, home: Path | None, checkpoint: Path | None
) -> None:
    settings = repository.settings
    if checkpoint is not None:
        settings = read_settings(checkpoint) or settings
    plan: dict[str, Any] = {
        "config": result.auto_map["AutoConfig"],
        "model": result.auto_map[auto],
        "auto": auto,
        "given": {name: value for name, value in settings.items() if name not in NOT_GIVEN},
        "checkpoint": str(checkpoint.resolve()) if checkpoint else "",
        "eager": any(map(caps_scores, repository.texts.values())),
    }
    texts = result.texts
    with disk.scratch() as folder:

        def observed(side: str, files: Mapping[str, str], paths: Sequence[str]) -> str:
            disk.fill(folder / side, files)
            why = run(side, folder, plan, paths)
            if checkpoint is not None and why.startswith("the checkpoint"):
                raise PatchgenError("PG863", Location(str(checkpoint)), f"does not fit: {why}")
            return why

        if home is not None:
            before = {**texts, **repository.texts}
            if why := observed("before", before, [str(home)]):
                result.left.append(f"not compared: it does not run with {result.release}: {why}")
        if why := observed("after", texts, []):
            result.left.append(f"does not load: {why}")
            return
        result.loads = True
        result.verified = compare(folder)
    for name, verdict in result.verified.items():
        is_shown = name == "logits" and not verdict.startswith(("equal", "runs"))
        if is_shown or verdict.startswith(("fails", "differs")):
            result.left.append(f"{name}: {verdict}")


def check(target: Path | None, checkpoint: Path | None) -> None:
    """Raise PatchgenError for a place to write to, or to read weights from, that is none."""
    if target is not None:
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            what = "is there already, and not empty"
            raise PatchgenError("PG804", Location(str(target)), what, "name another folder")
    patterns = ("*.safetensors", "pytorch_model*.bin")
    if checkpoint is not None:
        if not any(itertools.chain.from_iterable(map(checkpoint.glob, patterns))):
            what = f"has no weights: no {' or '.join(patterns)}"
            raise PatchgenError("PG863", Location(str(checkpoint)), what, "name its folder")


def write(result: Rescue, repository: Repository, folder: Path) -> None:
    """Write the new folder, all of it or nothing."""
    settings = {**repository.settings, "auto_map": result.auto_map}
    with disk.new_folder(folder) as new:
        for path in repository.beside:
            disk.copy(path, new / path.name, new)
        texts = result.texts
        texts["config.json"] = json.dumps(settings, indent=2) + "\n"
        texts["REPORT.md"] = "\n".join(report_lines(result, repository)) + "\n"
        for name, text in texts.items():
            disk.write(new / name, text, new)


def _beside(folder: Path) -> Iterator[Path]:
    """The files that are copied as they are, for people to upload: each must be the model's own."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in (*WEIGHTS, ".py"):
            disk.require_own(path, folder)
            yield path


def report_lines(result: Rescue, repository: Repository) -> Iterator[str]:
    """REPORT.md, for the maintainer who merges the change."""
    path = repository.path.resolve()
    yield f"# {path.name if path.is_dir() else path.parent.name} on transformers {result.newest}"
    yield from ("", f"Ported from transformers {result.release} by `patchgen rescue`.")
    yield from ("", "## Verified", "")
    if not result.verified:
        yield "Nothing was run." if not result.loads else "The model was not compared."
    else:
        yield from ("| what | result |", "|---|---|")
        yield from (f"| {name} | {verdict} |" for name, verdict in result.verified.items())
        yield ""
        yield "A small model, or the checkpoint, in float32 on a CPU, saved and loaded by its auto"
        yield "class with `trust_remote_code=True`. `equal`: with the same weights in both releases"
        yield "to 1e-5 of the largest value; `runs`: compared with nothing."
    yield from ("", "## Left", "")
    yield from (f"- {what}" for what in result.left or ["nothing"])
    for name, ported in sorted(result.files.items()):
        yield from ("", f"## {name}", "")
        if name not in repository.texts:
            why = f"Copied from transformers {result.release}: the newest release has another one."
            yield from (why, "")
        if ported.notes:
            yield from ("| line | was | now |", "|---:|---|---|")
        for note in sorted(ported.notes, key=lambda note: note.line):
            was = " ".join(note.what.split()).replace("|", "\\|")
            was = was if len(was) <= 90 else f"{was[:87]}..."
            yield f"| {note.line or ''} | `{was}` | {note.why} |"
        for copied, module in ported.copied:
            origin = "patchgen" if module.startswith("patchgen") else module
            row = f"|  | `{copied}` | copied from {origin} |"
            yield row if ported.notes else f"- `{copied}`: copied from {origin}"
