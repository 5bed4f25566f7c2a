"""`patchgen init`: what a new project starts with, the files of `cli/starter/`."""

from __future__ import annotations

import string
import textwrap
import tomllib
from pathlib import Path

import click

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.options import NEW_FOLDER
from patchgen.project.config import FILE, TABLE, Config, make_config, nearest_config, read_config
from patchgen.project.origin import UNKNOWN, origin
from patchgen.project.versions import release_of
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import INSTALL_TRANSFORMERS, make_environment

STARTER = Path(__file__).parents[1] / "starter"
HOOK, WORKFLOW = ".pre-commit-config.yaml", ".github/workflows/patchgen.yml"
# What lines of patchgen in a file that is there already are for.
ADDED = {HOOK: "to check before each commit", ".gitattributes": "to let git merge the lock"}


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=NEW_FOLDER)
def init(folder: str) -> int:
    """Adds a commented [tool.patchgen] to pyproject.toml, and makes the folders, a pre-commit hook
    and a GitHub workflow that runs `patchgen check`.  Files that exist are kept; a
    pyproject.toml without [tool.patchgen] gets it at its end.

    \b
    Example:
      patchgen init my-models
    """
    home = Path(folder).resolve()
    outer = nearest_config(home)
    # A second table below another one would hide it from the files of `home`.
    if outer is not None and outer.home != home:
        raise click.UsageError(f"{home} lies in a project: {outer.home / FILE} has [{TABLE}]")
    config = _configure(home)
    patchgen_from = _patchgen_requirement()
    release = release_of("transformers", make_environment(home))
    for name, text in _starters(config, patchgen_from, release).items():
        path = home / name
        is_there = path.exists() or path.is_symlink()
        terminal.say(f"{'kept' if is_there else 'wrote'} {name}")
        if not is_there:
            disk.write(path, text, home)
        elif name in ADDED and "patchgen" not in disk.text_of(path):
            lines = textwrap.indent(text.rstrip("\n"), "        ")
            terminal.say(f"    {ADDED[name]}, add:\n{lines}")
    terminal.write(_next_steps(config, patchgen_from, release))
    return 0


def _configure(home: Path) -> Config:
    """The configuration of `home`, which gets one if it has none."""
    config = read_config(home)
    if config is not None:
        terminal.say(f"kept {FILE}: it has [{TABLE}]")
        return config
    table = _starter("table.toml")
    path = disk.confine(home / FILE, home)
    exists = path.exists()
    new = _appended(disk.read_bytes(path) if exists else b"", table)
    disk.write(path, new, home)
    terminal.say(f"added [{TABLE}] to {FILE}" if exists else f"wrote {FILE}")
    return make_config(tomllib.loads(table)["tool"]["patchgen"], home)


def _appended(old: bytes, table: str) -> bytes:
    """The bytes of a pyproject.toml, then a blank line, then `table` with the file's line ends.

    Raises PatchgenError PG901 where TOML does not allow that.
    """
    newline = b"\r\n" if b"\r\n" in old else b"\n"
    if old and not old.endswith(b"\n"):
        old += newline
    new = old + (newline if old else b"") + table.encode().replace(b"\n", newline)
    try:
        tomllib.loads(new.decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        hint = f"write the table yourself:\n{textwrap.indent(table, '        ')}"
        what = f"[{TABLE}] cannot be added at the end: {error}"
        raise PatchgenError("PG901", Location(FILE), what, hint.rstrip()) from error
    return new


def _starters(config: Config, patchgen_from: str, release: str) -> dict[str, str]:
    """The files besides pyproject.toml, by their paths in the project."""
    source = config.sources[0] if config.sources else "modular"
    output = dict(config.outputs).get(source, source)
    files = {f"{source}/README.md": _starter("modular.md")}
    files[".gitattributes"] = _starter("gitattributes-of-lock")
    if output != source:  # it would call the modular files generated as well
        files[f"{output}/.gitattributes"] = _starter("gitattributes")
    named = {"patchgen": patchgen_from, "transformers": f"transformers=={release}"}
    # pre-commit makes an environment of its own where it can install patchgen anywhere.
    is_everywhere = release and patchgen_from != UNKNOWN
    hook = "pre-commit-installed.yaml" if is_everywhere else "pre-commit.yaml"
    files[HOOK] = _starter(hook, **named)
    if release:  # what is checked by another release than it was made from is not checked
        files[WORKFLOW] = _starter("workflow.yml", **named)
    return files


def _starter(name: str, **named: str) -> str:
    """The text of a starter file, with what it names as $patchgen and $transformers."""
    text = disk.text_of(STARTER / name)
    return string.Template(text).substitute(named) if named else text


def _patchgen_requirement() -> str:
    """What to give to `pip install` on another machine, which lacks folders of this one."""
    source = origin()
    return source if "://" in source else UNKNOWN


def _next_steps(config: Config, patchgen_from: str, release: str) -> str:
    steps = []
    if not config.sources:
        steps.append(f'add sources = ["modular"] to [{TABLE}] of {FILE}')
    if not release:
        steps += [INSTALL_TRANSFORMERS, f"patchgen init  # writes {WORKFLOW}, which names it"]
    steps += [
        "patchgen new llama --with loss  # writes a modular file; `patchgen new --help` has more",
        "patchgen convert                # writes its model",
        "patchgen check                  # says whether the two agree",
    ]
    if patchgen_from == UNKNOWN:
        steps.append(f"in {WORKFLOW}, replace {UNKNOWN} by where your CI finds patchgen")
    return "".join(["\nnext:\n", *(f"  {step}\n" for step in steps)])
