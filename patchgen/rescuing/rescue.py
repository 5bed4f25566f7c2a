"""`patchgen rescue`: from a file or folder written for transformers 4 to one that works today."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libcst as cst

from patchgen.author.adopt.releases import Release, order_of
from patchgen.rescuing.environment import compare, run
from patchgen.rescuing.names import imports_of, source_of
from patchgen.rescuing.port import Ported, port
from patchgen.rescuing.rewrite import Classes
from patchgen.rescuing.sources import PACKAGE, Sources
from patchgen.syntax.errors import Location, PatchgenError

# What names of classes say, and the auto class that loads such a class; the first is verified.
AUTO = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForSeq2SeqLM": "AutoModelForSeq2SeqLM",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "Model": "AutoModel",
}
# What `config.json` says that is no argument of a configuration.
NOT_GIVEN = {
    "auto_map",
    "architectures",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "model_type",
}
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx")


@dataclass(frozen=True)
class Repository:
    """What was given: the Python files by name, and the settings of `config.json`."""

    path: Path
    texts: Mapping[str, str]
    settings: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return self.path.parent if self.path.is_file() else self.path


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
    logs: dict[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """The result as data for JSON."""
        changes = {
            name: [f"{note.line}: {note.what}: {note.why}" for note in one.notes]
            for name, one in self.files.items()
        }
        copied = {name: dict(one.copied) for name, one in self.files.items()}
        return {
            "from": self.release, "to": self.newest, "auto_map": self.auto_map, "loads": self.loads,
            "verified": self.verified, "left": self.left, "changes": changes, "copied": copied,
        }  # fmt: skip


def read_repository(path: Path) -> Repository:
    """The files of a repository, or a file and those beside it that it imports."""
    files = sorted(path.glob("*.py"))
    if path.is_file():
        files = [path]
        for file in files:
            for node in ast.walk(_parsed(file)):
                if not isinstance(node, ast.ImportFrom) or node.level != 1 or not node.module:
                    continue
                other = path.parent / f"{node.module}.py"
                if other not in files:
                    if not other.is_file():
                        at = Location(str(file), node.lineno, node.col_offset + 1)
                        what = f"imports {other.name}, which is not beside it"
                        raise PatchgenError("PG861", at, what, "put it there, or name the folder")
                    files.append(other)
    texts = {file.name: file.read_text("utf-8") for file in files if _parsed(file)}
    folder = path.parent if path.is_file() else path
    place = folder / "config.json"
    try:
        settings = json.loads(place.read_text("utf-8")) if place.is_file() else {}
    except ValueError as error:
        raise PatchgenError("PG861", Location(str(place)), f"is no JSON: {error}") from error
    if not any("transformers" in text for text in texts.values()):
        what = "has no Python file that imports transformers"
        raise PatchgenError("PG861", Location(str(path)), what, "name a folder with modeling files")
    return Repository(path, texts, settings)


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        at = Location(str(file), getattr(error, "lineno", None) or 1, 1)
        raise PatchgenError("PG861", at, f"is no Python: {error}", "correct the file") from error


def release_of(repository: Repository, known: Sequence[Release]) -> Release:
    """The release that a repository was written for.

    The one that `config.json` says, or the next newer one at hand; else the oldest that has every
    name that is imported, or the one that lacks the fewest.
    """
    old = sorted((one for one in known if one.order < (5,)), key=lambda one: one.order)
    if not old:
        what = "no release before 5 is at hand"
        raise PatchgenError(
            "PG807", Location("transformers"), what, "name --package-root or --from"
        )
    stated = str(repository.settings.get("transformers_version", ""))
    if stated.startswith("4"):
        return next((one for one in old if one.order >= order_of(stated)), old[-1])
    wanted = {
        (source_of(node), alias.name)
        for text in repository.texts.values()
        for node in imports_of(ast.parse(text))
        for alias in node.names
        if alias.name != "*"
    }

    def lacking(release: Release) -> int:
        sources = Sources(release.root(), release.version)
        return sum(not sources.has(module, name) for module, name in wanted)

    return min(old, key=lacking)


def auto_map_of(
    texts: Mapping[str, str], settings: Mapping[str, Any], own: Mapping[str, str]
) -> dict[str, str]:
    """Which class each auto class loads: as `config.json` says, or by the names of the classes.

    Models are those of the `own` files; a configuration may be one that was copied.
    """
    models = {
        node.name
        for text in own.values()
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    }
    trees = {file: cst.parse_module(text) for file, text in sorted(texts.items())}
    classes = Classes()
    for tree in trees.values():
        classes.read(tree)
    found: dict[str, str] = {}
    configs: dict[str, str] = {}  # of the model that each auto class loads
    for file, tree in trees.items():
        for node in tree.body:
            name = node.name.value if isinstance(node, cst.ClassDef) else ""
            reference = f"{file.removesuffix('.py')}.{name}"
            if classes.is_config(name) and "Onnx" not in name:
                found.setdefault("AutoConfig", reference)
            auto = next((auto for part, auto in AUTO.items() if part in name), None)
            is_own = name in models and "PreTrained" not in name
            if auto is not None and classes.is_model(name) and is_own:
                found.setdefault(auto, reference)
                config = classes.value(name, "config_class")
                configs |= {auto: config} if config is not None and auto not in configs else {}
    config = next((configs[auto] for auto in AUTO.values() if auto in configs), None)
    for file, tree in trees.items():
        if any(isinstance(node, cst.ClassDef) and node.name.value == config for node in tree.body):
            found["AutoConfig"] = f"{file.removesuffix('.py')}.{config}"
    said = settings.get("auto_map", {})
    return {**found, **said} if said else found


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
    files = port(repository.texts, Sources(release.root(), release.version), new)
    texts = {name: one.text for name, one in files.items()}
    result = Rescue(
        release.version,
        new.version,
        files,
        auto_map_of(texts, repository.settings, repository.texts),
    )
    result.left += [what for one in files.values() for what in one.left]
    auto = next((auto for auto in AUTO.values() if auto in result.auto_map), None)
    if auto is None or "AutoConfig" not in result.auto_map:
        what = "has no class of a model, or none of its configuration, by their names"
        hint = "say in config.json, under auto_map, which they are"
        raise PatchgenError("PG861", Location(str(repository.path)), what, hint)
    if verify:
        _verify(result, repository, texts, auto, home, checkpoint)
    return result


def _verify(
    result: Rescue,
    repository: Repository,
    texts: Mapping[str, str],
    auto: str,
    home: Path | None,
    checkpoint: Path | None,
) -> None:
    given = {k: v for k, v in repository.settings.items() if k not in NOT_GIVEN}
    plan = {"auto": auto, "given": given, "checkpoint": str(checkpoint or "")}
    with tempfile.TemporaryDirectory(prefix="patchgen-rescue-") as place:
        folder = Path(place)
        sides = {"before": {**texts, **repository.texts}, "after": texts}
        for side, its in sides.items():
            (folder / side).mkdir()
            for name, text in its.items():
                (folder / side / name).write_text(text, encoding="utf-8")
        if home is not None:
            was = auto_map_of(sides["before"], repository.settings, repository.texts)
            classes = {"config": was["AutoConfig"], "model": was[auto]}
            if why := run("before", folder, {**plan, **classes}, [str(home)]):
                result.left.append(f"not compared: it does not run with {result.release}: {why}")
        classes = {"config": result.auto_map["AutoConfig"], "model": result.auto_map[auto]}
        if why := run("after", folder, {**plan, **classes}, []):
            result.left.append(f"does not load: {why}")
        else:
            result.loads = True
            result.verified = compare(folder)
            result.left += [
                f"{name}: {verdict}"
                for name, verdict in result.verified.items()
                if verdict.startswith(("fails", "differs"))
                or (name == "logits" and not verdict.startswith(("equal", "runs")))
            ]
        result.logs = {path.stem: path.read_text("utf-8") for path in folder.glob("*.log")}


def write(result: Rescue, repository: Repository, folder: Path, *, force: bool) -> None:
    """Write the new folder, all of it or nothing."""
    if folder.exists() and any(folder.iterdir()) and not force:
        what = "is there already, and not empty"
        raise PatchgenError("PG804", Location(str(folder)), what, "--force writes into it")
    settings = {**repository.settings, "auto_map": result.auto_map}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".rescue-") as place:
        new = Path(place)
        for path in repository.folder.iterdir() if repository.path.is_dir() else ():
            if path.is_file() and path.suffix not in (*WEIGHTS, ".py"):
                shutil.copyfile(path, new / path.name)
        for name, one in result.files.items():
            (new / name).write_text(one.text, encoding="utf-8")
        (new / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        report = "\n".join(report_lines(result, repository)) + "\n"
        (new / "REPORT.md").write_text(report, encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for path in new.iterdir():
            os.replace(path, folder / path.name)


def report_lines(result: Rescue, repository: Repository) -> Iterator[str]:
    """REPORT.md, for the maintainer who merges the change."""
    yield f"# {repository.folder.resolve().name} on transformers {result.newest}"
    yield ""
    yield f"Ported from transformers {result.release} by `patchgen rescue`."
    yield ""
    yield "## Verified"
    yield ""
    if not result.verified:
        yield "Nothing was run." if not result.loads else "The model was not compared."
    else:
        yield "| what | result |"
        yield "|---|---|"
        yield from (f"| {name} | {verdict} |" for name, verdict in result.verified.items())
        yield ""
        yield "A small model, or the checkpoint, in float32 on a CPU, with the same weights in both"
        yield "releases; `equal` means to 1e-5 of the largest value. Here it was built, saved and"
        yield "loaded by its auto class with `trust_remote_code=True`."
    yield ""
    yield "## Left"
    yield ""
    yield from (f"- {what}" for what in result.left)
    if not result.left:
        yield "Nothing."
    for name, one in sorted(result.files.items()):
        yield ""
        yield f"## {name}"
        yield ""
        if name not in repository.texts:
            yield f"Copied from transformers {result.release}: the newest release has another one."
            yield ""
        if one.notes:
            yield "| line | was | now |"
            yield "|---:|---|---|"
        for note in sorted(one.notes, key=lambda note: note.line):
            was = " ".join(note.what.split()).replace("|", "\\|")
            was = was if len(was) <= 90 else f"{was[:87]}..."
            yield f"| {note.line or ''} | `{was}` | {note.why} |"
        for copied, module in one.copied:
            origin = "patchgen" if module.startswith("patchgen") else f"{module}"
            yield (
                f"|  | `{copied}` | copied from {origin} |"
                if one.notes
                else f"- `{copied}`: copied from {origin}"
            )
