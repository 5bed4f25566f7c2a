"""`patchgen rescue`."""

from __future__ import annotations

from pathlib import Path

import click

from patchgen.author.adopt.releases import chosen, releases_in
from patchgen.cli import terminal
from patchgen.cli.options import FOLDER, NewPath, download, option, text_or_json
from patchgen.cli.releases import cache_folder, kept_releases
from patchgen.cli.report import print_json
from patchgen.project.places import user_folder
from patchgen.rescuing.environment import make_environment
from patchgen.rescuing.rescue import check, read_repository, release_of, write
from patchgen.rescuing.rescue import rescue as port


@click.command()
@click.argument("source", metavar="FILE|FOLDER", type=click.Path(exists=True))
@option("--from asked X", "The release that it was written for.")
@option("--package-root roots DIR", "Releases, or wheels.", type=FOLDER)
@download
@option("--with-environments", "Let pip install the old release.")
@option("--checkpoint DIR", "Compare with these weights.", type=FOLDER)
@option("--out folder DIR", "Write the new folder.", type=NewPath())
@option("--no-verify", "Run nothing.")
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
    """FOLDER is a Hub repository with modeling and configuration files, or FILE one of them.  The
    result is a folder that `from_pretrained(trust_remote_code=True)` loads, with a REPORT.md.  RUNS
    the model's own code in processes of its own.  Exit code 0: it loads, and nothing is left; else
    1.

    \b
    Example:
      patchgen rescue my-model --with-environments --out my-model-5
    """
    target = Path(folder) if folder is not None else None
    weights = Path(checkpoint) if checkpoint is not None else None
    check(target, weights)
    cache = cache_folder()
    repository = read_repository(Path(source))
    known = [*kept_releases(), *(releases_in(Path(roots), cache) if roots else ())]
    if asked:
        known = [*chosen([asked], known, cache, download=download)]
    release = release_of(repository, known)
    home = None
    if with_environments:
        wheels = Path(roots) if roots else None
        home = make_environment(release.version, user_folder() / "environments", wheels)
    result = port(repository, release, home, weights, verify=not no_verify)
    is_written = target is not None and (result.loads or no_verify)
    if target is not None and is_written:
        write(result, repository, target)
    if form == "json":
        print_json("rescue", result.data())
    else:
        terminal.say(f"{source}: from transformers {result.release} to {result.newest}")
        for name, one in sorted(result.files.items()):
            terminal.say(f"{name}: {len(one.notes)} changes, {len(one.copied)} definitions copied")
        for what, verdict in result.verified.items():
            terminal.say(f"{what}: {verdict}")
        terminal.say("\n  ".join(["left:", *result.left]) if result.left else "nothing is left")
        if folder is not None:
            done = f"wrote {folder}" if is_written else "nothing is written: it does not load"
            terminal.say(done)
    return int(bool(result.left) or not (result.loads or no_verify))
