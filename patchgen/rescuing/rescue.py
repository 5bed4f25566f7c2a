"""`patchgen rescue`: from a file or folder written for transformers 4 to one that works today."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.project.write import replace_file
from patchgen.rescuing.names import imports_of, source_of
from patchgen.rescuing.port import Ported, port
from patchgen.rescuing.release import Release
from patchgen.syntax.errors import Location, PatchgenError

BOUND = 1e-5  # relative, in float32
NOT_GIVEN = ("auto_map", "architectures", "transformers_version", "torch_dtype", "dtype", "model_type")
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


@dataclass
class Rescue:
    """What became of a repository: its new files, what was verified, and what is left."""

    release: str
    newest: str
    files: dict[str, Ported]
    auto_map: dict[str, str]
    verified: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not self.left


def read_repository(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The Python files by name, and the settings of `config.json`."""
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    if path.is_file():
        wanted = {
            f"{node.module}.py"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        }
        files += [one for one in sorted(path.parent.glob("*.py")) if one.name in wanted]
    texts = {one.name: one.read_text(encoding="utf-8") for one in files}
    settings_file = (path.parent if path.is_file() else path) / "config.json"
    settings = json.loads(settings_file.read_text(encoding="utf-8")) if settings_file.is_file() else {}
    return texts, settings


def unpack(wheel: Path, folder: Path) -> Path:
    """The sources in a wheel, in a folder that is kept from run to run."""
    if not (folder / "transformers" / "__init__.py").is_file():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [n for n in archive.namelist() if n.endswith(".py")])
    return folder


def make_environment(version: str, folder: Path, wheels: Path | None, more: Sequence[str]) -> None:
    """Install an old release with what it wants, torch aside, which is shared."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", str(folder)]
    if wheels is not None:
        command += ["--find-links", str(wheels)]
    done = subprocess.run(
        [*command, f"transformers=={version}", *more], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip ended without a word"])[-1]
        raise PatchgenError("PG861", Location(""), f"transformers {version} cannot be installed: {last}")


def auto_map_of(texts: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, str]:
    """Which class each auto class loads: as `config.json` says, or by the names of the classes."""
    if settings.get("auto_map"):
        return {k: v for k, v in settings["auto_map"].items() if isinstance(v, str)}
    found: dict[str, str] = {}
    for file, text in sorted(texts.items()):
        for node in ast.parse(text).body:
            if not isinstance(node, ast.ClassDef):
                continue
            stem = file.removesuffix(".py")
            if node.name.endswith("Config") and not node.name.endswith("OnnxConfig"):
                found.setdefault("AutoConfig", f"{stem}.{node.name}")
            for ending, auto in AUTO.items():
                if node.name.endswith(ending) and "PreTrained" not in node.name:
                    found.setdefault(auto, f"{stem}.{node.name}")
                    break
    return found


def run(side: str, folder: Path, repository: Path, plan: Mapping[str, Any], paths: Sequence[str]) -> str:
    """Observe in an environment; the last words of a run that fails."""
    script = Path(__file__).with_name("observe.py")
    home = folder / f"home-{side}"
    environment = {
        **os.environ, "HF_HOME": str(home), "HF_MODULES_CACHE": str(home / "modules"), "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]), "TRANSFORMERS_VERBOSITY": "error",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", str(script), side, str(folder), str(repository), json.dumps(plan)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (folder / f"{side}.log").write_text(done.stderr, encoding="utf-8")
    return "" if not done.returncode else (done.stderr.strip().splitlines() or ["no word"])[-1]


def compare(folder: Path) -> dict[str, str]:
    """Class by class of what a model does: `equal`, or how it differs."""
    import torch

    new = torch.load(folder / "new.pt", weights_only=False)
    old_file = folder / "old.pt"
    old = torch.load(old_file, weights_only=False) if old_file.exists() else None
    verdicts: dict[str, str] = {}
    for name, mine in new["seen"].items():
        theirs = old["seen"][name] if old else None
        if isinstance(theirs, str):
            verdicts[name] = f"failed before: {theirs}" + ("" if isinstance(mine, str) else "; runs now")
        elif isinstance(mine, str):
            verdicts[name] = f"fails: {mine}"
        elif theirs is None:
            verdicts[name] = "runs"
        else:
            verdicts[name] = _difference(theirs, mine)
            if name == "beam search" and verdicts[name].startswith("differs") and mine[0].equal(mine[1]):
                verdicts[name] = "equals the search without a cache; transformers searches otherwise now"
    return verdicts


def _difference(theirs: Any, mine: Any) -> str:
    if isinstance(theirs, dict):
        if theirs.keys() != mine.keys():
            return f"differs: {sorted(theirs.keys() ^ mine.keys())[:3]} on one side only"
        theirs, mine = [*theirs.values()], [mine[key] for key in theirs]
    if len(theirs) != len(mine):
        return f"differs: {len(mine)} tensors in place of {len(theirs)}"
    largest = 0.0
    for one, two in zip(theirs, mine, strict=True):
        if one.shape != two.shape:
            return f"differs: {tuple(two.shape)} in place of {tuple(one.shape)}"
        scale = max(float(one.double().abs().max()) if one.numel() else 0.0, 1e-3)
        gap = (one.double() - two.double()).abs().max() if one.numel() else 0.0
        largest = max(largest, float(gap) / scale)
    return f"equal ({largest:.0e})" if largest <= BOUND else f"differs: by {largest:.1e}"


def rescue(
    path: Path, old: Release, new: Release, environment: Path | None, more: Sequence[str] = ()
) -> tuple[Rescue, dict[str, bytes]]:
    """Port, verify, and give the files of the new folder."""
    texts, settings = read_repository(path)
    files = port(texts, old, new)
    ported = {name: one.text for name, one in files.items()}
    auto_map = auto_map_of(ported, settings)
    result = Rescue(old.version, new.version, files, auto_map)
    result.left += [what for one in files.values() for what in one.left]
    with tempfile.TemporaryDirectory(prefix="patchgen-rescue-") as place:
        folder = Path(place)
        fresh = folder / "fresh"
        fresh.mkdir()
        for name, text in ported.items():
            (fresh / name).write_text(text, encoding="utf-8")
        auto = next((a for a in AUTO.values() if a in auto_map), "")
        if "AutoConfig" not in auto_map or not auto:
            result.left.append("no configuration class or no model class was found")
            return result, {}
        before = folder / "before"
        before.mkdir()
        for name, text in texts.items():
            (before / name).write_text(text, encoding="utf-8")
        given = {k: v for k, v in settings.items() if k not in NOT_GIVEN}
        plan = {"config": auto_map["AutoConfig"], "model": auto_map[auto], "auto": auto, "given": given}
        if environment is not None:
            old_map = auto_map_of(texts, settings)
            old_plan = {**plan, "config": old_map.get("AutoConfig", plan["config"]), "model": old_map[auto]}
            why = run("old", folder, before, old_plan, [str(environment), *more])
            if why:
                result.left.append(f"not compared: the old model does not run with {old.version}: {why}")
        why = run("new", folder, fresh, plan, more)
        if why:
            result.left.append(f"does not load: {why}")
        else:
            result.verified = compare(folder)
            result.left += [f"{k}: {v}" for k, v in result.verified.items() if v.startswith(("fails", "differs"))]
        result.logs = {p.stem: p.read_text() for p in folder.glob("*.log")}  # type: ignore[attr-defined]
    return result, {name: text.encode() for name, text in ported.items()}
