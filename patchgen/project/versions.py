"""The releases of the tools that can change an output, read from files.

`importlib.metadata` would give the same in 25 ms, most of it for importing a mail parser.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys

import patchgen
from patchgen import disk
from patchgen.syntax.locate import Environment

TOOLS = ("black", "libcst", "ruff")


@functools.cache
def tool_versions() -> dict[str, str]:
    """The installed release of each of `TOOLS` that is installed."""
    versions: dict[str, str] = {}
    # Python imports from the first folder that has the package: that one is read last, and counts.
    for folder in reversed(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:  # an archive
            names = []
        for name in names:
            match = re.fullmatch(r"(\w+)-([^-]+)\.dist-info", name)
            if match and match[1] in TOOLS:
                versions[match[1]] = match[2]
    return versions


def release_of(package: str, env: Environment) -> str:
    """The `__version__` at the top of `package`, or ""."""
    path = env.path(package)
    if path is None:
        return ""
    match = re.search(r"""^__version__\s*=\s*["']([^"']+)["']""", disk.text_of(path), re.MULTILINE)
    return match[1] if match else ""


def describe_versions(env: Environment, formatter: str) -> str:
    """Name and release of patchgen, of the tools in use and of the parents' package, sorted."""
    tools = tool_versions()
    used = {"patchgen": patchgen.__version__, "transformers": release_of("transformers", env)}
    used |= {name: tools.get(name, "") for name in ("libcst", formatter)}
    return ", ".join(f"{name} {release}" for name, release in sorted(used.items()) if release)


def release_in(made_by: str) -> str:
    """The release of transformers that `describe_versions` named; "" if it named none."""
    release = re.search(r"\btransformers (\S+?)(?:,|$)", made_by)
    return release[1] if release else ""


# The packages that no output depends on.
_NOT_COMPILED = {"author", "cli", "gallery", "runtime", "training", "verifying"}


@functools.cache
def own_digest() -> str:
    """The sha256 over the sources that make outputs.

    Outcomes that other sources made are not loaded from the cache.
    """
    top = os.path.dirname(patchgen.__file__)
    whole = hashlib.sha256()
    # Names and contents in one order, whatever the order of the file system.
    for folder, inner, names in os.walk(top):
        unread = {"__pycache__"} | (_NOT_COMPILED if folder == top else set())
        inner[:] = sorted({*inner} - unread)
        for name in sorted(names):
            if name.endswith((".py", ".toml")):
                path = os.path.join(folder, name)
                data = disk.read_bytes(path)
                whole.update(path.removeprefix(top).encode() + b"\0" + data + b"\0")
    return whole.hexdigest()
