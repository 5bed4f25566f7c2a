"""`patchgen retire`: which declared changes upstream makes by itself now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from patchgen.author.adopt.releases import Release
from patchgen.author.align.file import File, read_file
from patchgen.author.rebase.releases import Tree
from patchgen.author.survive.caught_up import Retirement, find_caught_up
from patchgen.author.survive.files import open_release
from patchgen.author.survive.releases import wanted_releases
from patchgen.author.survive.view import make_view
from patchgen.cli.rebase import named_modulars
from patchgen.cli.session import Request, open_project
from patchgen.cli.survive import known_releases
from patchgen.project.files import Modular, Project
from patchgen.project.lock import Record, load_records
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.text import read_source


def retire(
    names: tuple[str, ...],
    *,
    asked: str | None,
    releases_dir: str | None,
    download: bool,
    form: str,
) -> int:
    """Print what can be deleted; 1 if there is something."""
    project = open_project(Request())
    modulars = named_modulars(project, names)
    release = _release(project, asked, releases_dir, download=download)
    tree = Tree(make_view(open_release(release), project.environment(), {}))
    records = load_records(project)
    found = {m: _on(project, m, records, tree) for m in modulars}
    if form == "json":
        rows = [_data_of(modular, made) for modular, made in found.items()]
        click.echo(json.dumps({"release": release.version, "variants": rows}, indent=1))
    else:
        for line in _lines_of(found, release.version):
            click.echo(line)
    return int(any(made.found for made in found.values()))


def _release(
    project: Project, asked: str | None, releases_dir: str | None, *, download: bool
) -> Release:
    """The release that is named, else the newest that is here."""
    known, cache = known_releases(project, releases_dir)
    wanted = (asked,) if asked is not None else ()
    found = wanted_releases(wanted, known, cache, download=download)
    if not found:
        raise PatchgenError("PG807", Location("transformers"), "no release is here")
    return found[-1]


def _on(
    project: Project, modular: Modular, records: Mapping[Path, Record], tree: Tree
) -> Retirement:
    """What upstream has of a modular file; its outputs are read where they are recorded."""
    outputs: dict[str, File] = {}
    for path, record in records.items():
        if record.modular == modular.display_path and path.is_file():
            outputs[path.name] = read_file(
                read_source(path, display_path=project.display_path(path))
            )
    file = read_file(read_source(modular.path, display_path=modular.display_path))
    return find_caught_up(file, outputs, tree)


def _lines_of(found: Mapping[Modular, Retirement], version: str) -> Iterator[str]:
    count = 0
    for modular, made in found.items():
        for one in made.found:
            count += 1
            yield f"{one.at}: {one.name}: transformers {version} has this {one.kind}"
            yield f"    hint: {one.hint}"
        if made.whole:
            yield f"{modular.display_path}: nothing else is left of the variant"
            yield "    hint: delete the file, and run `patchgen convert` to remove its outputs"
    yield f"{count} changes of {len(found)} variants are in transformers {version}"


def _data_of(modular: Modular, made: Retirement) -> dict[str, Any]:
    return {
        "modular": modular.display_path,
        "whole": made.whole,
        "caught_up": [
            {"name": one.name, "kind": one.kind, "lines": one.spans, "hint": one.hint}
            for one in made.found
        ],
    }
