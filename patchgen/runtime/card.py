"""The model card of an exported variant: its use, changes, licence and proof."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import patchgen
from patchgen import disk
from patchgen.project.parity import FILE, FOLDER, is_about, read_report
from patchgen.runtime.variants import Variant

_RAN_WITH = ("transformers", "torch")
_LICENCE = "apache-2.0"  # of transformers, and so of what was made from it


def model_card(
    variant: Variant, name: str, configuration: Mapping[str, Any], source: Path | None
) -> str:
    """README.md of the folder `name`, whose config.json says `configuration`.

    `source` is the checkpoint's folder.
    """
    parts = [
        _front_matter(configuration, source),
        f"# {name}",
        *_about(variant),
        *_how_to_load(name, configuration),
        *_what_changed(variant),
        *_versions(variant),
        *_licence(variant, source),
        *_parity(variant),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(configuration: Mapping[str, Any], source: Path | None) -> str:
    licence = _LICENCE if source is None else _licence_of(source)
    lines = ["library_name: transformers", *([f"license: {licence}"] if licence else [])]
    kind = configuration.get("model_type")
    return "\n".join(
        [
            "---",
            *lines,
            "tags:",
            "- custom_code",
            "- patchgen",
            *([f"- {kind}"] if kind else []),
            "---",
        ]
    )


def _licence_of(source: Path) -> str:
    """What the checkpoint's own card says; "" where it says nothing."""
    card = source / "README.md"
    text = disk.text_of(card) if card.is_file() else ""
    front = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    licence = re.search(r"^license:\s*([\w.-]+)\s*$", front[1], re.MULTILINE) if front else None
    return licence[1] if licence else ""


def _about(variant: Variant) -> Iterator[str]:
    path = variant.home / variant.modular
    if variant.modular and path.is_file():
        docstring = ast.get_docstring(ast.parse(disk.text_of(path)))
        if docstring:
            yield docstring
    yield f"A variant of `{variant.parent}`, made from it by patchgen: one file, to be read."


def _how_to_load(name: str, configuration: Mapping[str, Any]) -> Iterator[str]:
    autos = {
        reference.rpartition(".")[2]: auto for auto, reference in configuration["auto_map"].items()
    }
    # AutoModel, where it is among them, is the first.
    other = min(name for name in configuration["auto_map"] if name != "AutoConfig")
    auto = autos.get(next(iter(configuration.get("architectures") or ()), ""), other)
    yield f"""## Loading

```python
from transformers import {auto}

model = {auto}.from_pretrained("{name}", trust_remote_code=True)
```"""
    if "AutoConfig" not in configuration["auto_map"]:
        yield (
            "Without `trust_remote_code=True` transformers builds its own class of this "
            "`model_type` instead, from the same weights."
        )
    auto_classes = ", ".join(f"`{auto}`" for auto in sorted(configuration["auto_map"]))
    yield f"Auto classes: {auto_classes}."


def _what_changed(variant: Variant) -> Iterator[str]:
    diff = variant.path.with_suffix(".diff")
    yield "## What was changed"
    if not diff.is_file():
        yield f"A model of its own: `{variant.path.name}` says which modules it was made from."
        return
    text = disk.text_of(diff)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield f"Against `{variant.parent}` (`{diff.name}`):"
    yield f"{fence}diff\n{text.rstrip()}\n{fence}"


def _versions(variant: Variant) -> Iterator[str]:
    yield "## Versions"
    tools = variant.made_by or f"patchgen {patchgen.__version__}"
    here = ", ".join(f"{package} {metadata.version(package)}" for package in _RAN_WITH)
    yield f"Made by {tools}. Exported with {here}; other releases may lack what the code imports."
    if variant.transformers:
        yield (
            f"`{variant.path.name}` warns under a release of transformers whose file of the parent "
            f"is not that of {variant.transformers}."
        )


def _licence(variant: Variant, source: Path | None) -> Iterator[str]:
    yield "## Licence"
    begin = "The code is a modified copy of code of transformers, under the Apache License 2.0."
    holders = re.findall(
        r"^# (Copyright .*|.* All rights reserved\.?)$", variant.text(), re.MULTILINE
    )
    yield "\n".join([begin, *(f"{holder.strip()}  " for holder in dict.fromkeys(holders))])
    if source is not None:
        licence = _licence_of(source)
        named = f": {licence}" if licence else ""
        yield f"The weights keep the licence of the checkpoint that they come from{named}."


def _parity(variant: Variant) -> Iterator[str]:
    folder = variant.home / FOLDER
    pages = sorted(folder.glob("*.md")) if (folder / FILE).is_file() else []
    sections = [section for page in pages if (section := _section(page, variant.name))]
    if not sections:
        return
    yield "## Parity with the parent"
    if is_about(read_report(folder), variant.name, variant.home, variant.modular):
        yield from sections
    else:
        yield "It was verified before its last change, and not since."


def _section(page: Path, name: str) -> str:
    """What a report says of the variant, after the line on how the report was made; or ""."""
    text = disk.text_of(page)
    section = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        return ""
    circumstances = text.split("\n\n", 2)[1]
    cases = f"<details><summary>Every case</summary>\n\n{section[1].strip()}\n\n</details>"
    return f"{circumstances}\n\n{cases}"
