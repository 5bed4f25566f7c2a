"""Which modeling module a model has that is given by the name of a checkpoint.

`meta-llama/Llama-3.2-1B` is of the type that its `config.json` says: one in a local folder, or in
the Hub's cache on this disk.  It is read as text; nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from patchgen import disk
from patchgen.author.anatomy.module import every_module, find_module
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment

CONFIG = "config.json"
SHORTEST = 4  # letters of a type that may stand anywhere in the name of a checkpoint


def find_published(env: Environment, model: str, home: Path) -> str:
    """The dotted name of the modeling module of `model`, a type or a checkpoint.

    Raises PatchgenError PG801 where there is none, PG904 for a link that leads out of the folder or
    out of the project `home`, and PG001 to PG003 for a configuration that cannot be read.
    """
    try:
        return find_module(env, model)
    except PatchgenError:
        config = _find_config(model, home)
        if config is None and "/" not in model:
            raise
    if config is None:
        what = f"has no {CONFIG} at hand: neither in a folder here nor in the Hub's cache"
        raise PatchgenError("PG801", Location(model), what, _guess(env, model))
    kind = _type_in(config)
    return find_type(env, kind, str(config))


def find_type(env: Environment, kind: str, said_in: str = "") -> str:
    """The dotted name of the modeling module of a model type.  Raises PatchgenError PG801."""
    module = _module_of_type(env, kind)
    if module is None:
        what = f"is of the type {kind!r}, which the installed transformers has not"
        raise PatchgenError("PG801", Location(said_in or kind), what)
    return module


def _find_config(model: str, home: Path) -> Path | None:
    """The configuration of a checkpoint, in a folder of that name or in the Hub's cache."""
    folder = Path(model)
    if (folder / CONFIG).is_file():
        disk.require_named(folder, home)
        disk.require_own(folder / CONFIG, folder)
        return folder / CONFIG
    # ValueError: what cannot be the name of a checkpoint.
    with contextlib.suppress(ImportError, ValueError):
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model, CONFIG)
        if isinstance(cached, str):
            disk.require_own(Path(cached), Path(cached).parent)
            return Path(cached)
    return None


def _type_in(config: Path) -> str:
    try:
        said = disk.read_json(config, disk.SOURCE)
    except OSError as error:
        raise disk.unreadable(error, str(config)) from error
    except ValueError as error:
        raise PatchgenError("PG801", Location(str(config)), f"is no JSON: {error}") from error
    kind = said.get("model_type") if isinstance(said, dict) else None
    if not isinstance(kind, str):
        raise PatchgenError("PG801", Location(str(config)), "says no model_type")
    return kind


def _module_of_type(env: Environment, kind: str) -> str | None:
    """The modeling module beside the configuration that says this type."""
    with contextlib.suppress(PatchgenError):
        return find_module(env, kind)
    # `gemma3_text` is of the folder gemma3, and `openai-gpt` of openai.
    said = re.compile(rf"^    model_type = [\"']{re.escape(kind)}[\"']", re.MULTILINE)
    for name in every_module(env):
        path = env.path(name)
        configurations = path.parent.glob("configuration_*.py") if path is not None else ()
        if any(said.search(disk.text_of(each)) for each in configurations):
            return name
    return None


def _guess(env: Environment, model: str) -> str:
    """A hint: the longest type that the name of a checkpoint begins with, or has inside."""
    spelt = re.sub(r"[^a-z0-9]", "", model.rpartition("/")[2].lower())
    fitting = []
    for kind in sorted({name.split(".")[2] for name in every_module(env)}):
        short = kind.replace("_", "")
        is_long = len(short) >= SHORTEST
        if spelt.startswith(short) or (is_long and short in spelt):
            fitting.append(kind)
    said = "give its type, the model_type of its configuration"
    if fitting:
        return f"{said}: perhaps {max(fitting, key=len)}"
    return said
