"""Where this patchgen came from, so that a hint installs the same one and not a namesake.

patchgen is on no index: what somebody else puts there under its name must not be installed.

    pip install '/home/me/patchgen[train]'                          from a clone or a wheel
    pip install 'patchgen[train] @ git+https://x.org/p.git@ab12'    from a repository
    pip install 'path/to/patchgen[train]'                           where nothing is known
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from urllib.parse import unquote, urlsplit

import patchgen

# `accelerate>=1.10; extra == 'train'`
_OF_EXTRA = re.compile(r"([\w-]+).*extra == ['\"](\w+)")
UNKNOWN = "path/to/patchgen"


def origin() -> str:
    """A folder, a wheel or an URL that pip takes; `UNKNOWN` where it came from an index.

    pip records it in `direct_url.json` (PEP 610).
    """
    try:
        record = json.loads(distribution("patchgen").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        folder = Path(patchgen.__file__).parents[1]
        return str(folder) if (folder / "pyproject.toml").is_file() else UNKNOWN
    url = str(record.get("url", ""))
    if url.startswith("file:"):
        return unquote(urlsplit(url).path)
    revision = record.get("vcs_info")
    return f"{revision['vcs']}+{url}@{revision['commit_id']}" if revision else url or UNKNOWN


def missing_package(error: ModuleNotFoundError) -> str:
    """What is not installed.  transformers says a sentence, "The 'safetensors>=0.8.0' ..."."""
    name = error.name or ""
    quoted = re.search(r"'([\w-]+)", name)
    return quoted[1] if quoted else name.partition(".")[0]


def how_to_install(package: str) -> str:
    """The command that installs `package`: that of the extra that brings it, if there is one."""
    package = package.replace("_", "-").lower()
    try:
        lines = requires("patchgen") or []
    except PackageNotFoundError:
        lines = []
    found = filter(None, map(_OF_EXTRA.match, lines))
    extras = [match[2] for match in found if match[1].lower() == package]
    for extra in ("models", "train", "liger", *extras):  # people want these first
        if extra in extras:
            return install_hint(extra)
    return f"pip install {package}"


def install_hint(extra: str) -> str:
    """The command that adds what `extra` stands for to this patchgen."""
    source = origin()
    # An URL follows the name, as its end may be a commit.
    named = f"patchgen[{extra}] @ {source}" if "://" in source else f"{source}[{extra}]"
    return f"pip install '{named}'"
