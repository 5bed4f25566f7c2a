"""The installed transformers as test data: found, never imported; copied where something is written."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path

RATCHET = tomllib.loads(Path(__file__).with_name("ratchet.toml").read_text(encoding="utf-8"))
_GENERATED = b"This file was automatically generated from src/transformers/"


def find_package() -> Path | None:
    """The folder of the installed transformers, if it is of the release that the ratchet is about."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    release = re.search(
        r'^__version__ = "(.*)"', Path(spec.origin).read_text(encoding="utf-8"), re.MULTILINE
    )
    return package if release and release[1] == RATCHET["release"] else None


def modulars_in(package: Path, models: Iterable[str] = ("*",)) -> list[Path]:
    """The modular files of `models`, sorted."""
    return sorted(path for model in models for path in package.glob(f"models/{model}/modular_*.py"))


def is_generated(path: Path) -> bool:
    """Whether transformers' own converter wrote the file."""
    return (
        path.suffix == ".py"
        and path.name != "__init__.py"
        and _GENERATED in path.read_bytes()[:2000]
    )


def generated_in(package: Path) -> dict[str, bytes]:
    """Every generated file by its path in the package."""
    paths = (path for path in sorted(package.glob("models/*/*.py")) if is_generated(path))
    return {path.relative_to(package).as_posix(): path.read_bytes() for path in paths}


def copy_package(package: Path, tree: Path, models: Iterable[str] | None = None) -> Path:
    """`package`, or what a converter needs of it for `models`, below `tree`; its place there."""
    copy = tree / "transformers"
    if models is None:
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        return copy
    for name in ("__init__.py", "models/__init__.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package / name, copy / name)
    for model in ("auto", *models):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package / "models" / model, copy / "models" / model, ignore=ignored)
    return copy


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
