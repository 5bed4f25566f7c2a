"""`patchgen rescue`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from patchgen.cli.options import FOLDER, download, text_or_json


@click.command()
@click.argument("source", metavar="FILE|FOLDER", type=click.Path(exists=True))
@click.option("--from", "asked", metavar="X", help="The release that it was written for.")
@click.option("--package-root", "roots", type=FOLDER, metavar="DIR", help="Releases, or wheels.")
@download
@click.option("--with-environments", is_flag=True, help="Let pip install the old release.")
@click.option("--checkpoint", type=FOLDER, metavar="DIR", help="Compare with these weights.")
@click.option("--write", "folder", type=click.Path(), metavar="DIR", help="Write the new folder.")
@click.option("--no-verify", is_flag=True, help="Run nothing.")
@text_or_json
def rescue(
    source: str,
    asked: str | None,
    roots: str | None,
    download: bool,
    with_environments: bool,
    checkpoint: str | None,
    folder: str | None,
    no_verify: bool,
    form: str,
) -> int:
    """Port model code from transformers 4 to the installed release.

    FOLDER is a Hub repository with modeling and configuration files, or FILE one of them.  The
    result is a folder that `from_pretrained(trust_remote_code=True)` loads, with a REPORT.md.
    RUNS the model's own code in processes of its own.  Exit code 0: it loads, and nothing is left;
    else 1.

    \b
    Example:
      patchgen rescue my-model --with-environments --write my-model-5
    """
    from patchgen.author.adopt.releases import chosen, releases_in
    from patchgen.project.places import user_folder
    from patchgen.rescuing.environment import make_environment
    from patchgen.rescuing.rescue import check, read_repository, release_of, rescue, write

    target = Path(folder) if folder is not None else None
    weights = Path(checkpoint) if checkpoint is not None else None
    check(target, weights)
    cache = user_folder() / "releases"
    repository = read_repository(Path(source))
    places = [*([cache] if cache.is_dir() else []), *([Path(roots)] if roots else [])]
    known = [release for place in places for release in releases_in(place, cache)]
    if asked:
        known = [*chosen([asked], known, cache, download=download)]
    release = release_of(repository, known)
    home = None
    if with_environments:
        wheels = Path(roots) if roots else None
        home = make_environment(release.version, user_folder() / "environments", wheels)
    result = rescue(repository, release, home, weights, verify=not no_verify)
    is_written = target is not None and (result.loads or no_verify)
    if target is not None and is_written:
        write(result, repository, target)
    if form == "json":
        click.echo(json.dumps(result.data(), indent=1))
    else:
        click.echo(f"{source}: from transformers {result.release} to {result.newest}")
        for name, one in sorted(result.files.items()):
            click.echo(f"{name}: {len(one.notes)} changes, {len(one.copied)} definitions copied")
        for what, verdict in result.verified.items():
            click.echo(f"{what}: {verdict}")
        click.echo("\n  ".join(["left:", *result.left]) if result.left else "nothing is left")
        if folder is not None:
            click.echo(f"wrote {folder}" if is_written else "nothing is written: it does not load")
    return int(bool(result.left) or not (result.loads or no_verify))
