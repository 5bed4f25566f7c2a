"""MkDocs hooks: pages that the site has besides those of docs/, and what GitHub's Markdown has not.

The pages are written to be read on GitHub.  For the site, links out of docs/ lead to copies of the
files, and the words behind the language of a code block become its title.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from patchgen.cli.commands import COMMANDS, load_command
from patchgen.cli.commands import patchgen as command_line

REPOSITORY = Path(__file__).resolve().parents[2]
GALLERY = REPOSITORY / "build" / "gallery"  # `patchgen page` writes it
# Pages of the repository's top folder, and their names in the site.
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# Tables of thousands of rows, in which nobody searches by words.
RECORDS = ("coverage.md", "parity/", "benchmarks/")
# Modules whose docstrings are the reference, by the title of their page.
MODULES = {
    "Edits": ("patchgen.edits",),
    "Parts": tuple(
        f"patchgen.parts.{name}"
        for name in ("sdpa", "checkpoint", "loss", "flash", "moe", "norm", "gelu", "liger")
    ),
    "Run time": tuple(
        f"patchgen.runtime.{name}"
        for name in ("load", "register", "export", "checkpointing", "varlen", "grouped_gemm")
    ),
}
_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w+)(?P<rest>[^\n`]*)$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
_PICTURE = re.compile(r'(?P<before>(?:src|srcset)=")docs/(?P<target>[^"]+)')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, the reference from the code, and the gallery."""
    for name, uri in TOP.items():
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text))
    files.append(File.generated(config, "reference/cli.md", content=_command_line()))
    for title, modules in MODULES.items():
        uri = f"reference/{title.lower().replace(' ', '-')}.md"
        files.append(File.generated(config, uri, content=_reference(title, modules)))
    for path in sorted(GALLERY.rglob("*")):
        if path.is_file():
            uri = f"gallery/{path.relative_to(GALLERY).as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    for name in _linked_files(files):
        files.append(File.generated(config, name, abs_src_path=str(REPOSITORY / name)))
    return files


def _command_line() -> str:
    """What `--help` prints, for patchgen and for each command."""
    top = click.Context(command_line, info_name="patchgen", max_content_width=90)
    sections = ["# Command line", _help_block(top)]
    for name in sorted(COMMANDS):
        command = load_command(name)
        context = click.Context(command, parent=top, info_name=name, max_content_width=90)
        sections += [f"## patchgen {name}", _help_block(context)]
    return "\n\n".join(sections) + "\n"


def _help_block(context: click.Context) -> str:
    return f"```text\n{context.command.get_help(context)}\n```"


def _reference(title: str, modules: tuple[str, ...]) -> str:
    return f"# {title}\n\n" + "\n\n".join(f"::: {module}" for module in modules) + "\n"


def _linked_files(files: Files) -> list[str]:
    """The files outside docs/ that its pages link to, such as scripts."""
    found = set()
    for file in files.documentation_pages():
        for link in _LINK.finditer(_without_blocks(file.content_string)):
            name = _place_in_repository(link["target"], file.src_uri)
            if name and name not in TOP and not name.startswith("docs/"):
                found.add(name)
    return sorted(name for name in found if (REPOSITORY / name).is_file())


def _without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def _place_in_repository(target: str, page: str) -> str:
    """The path from the top of the repository that `target` means in the page; "" for the web."""
    if re.match(r"\w+:", target):
        return ""
    top = {uri: name for name, uri in TOP.items()}
    folder = posixpath.dirname(top.get(page, f"docs/{page}"))
    return posixpath.normpath(posixpath.join(folder, target))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The text of a page with links and code blocks as the site needs them."""
    uri = page.file.src_uri
    if uri.startswith(RECORDS):
        page.meta["search"] = {"exclude": True}

    def move(link: re.Match[str]) -> str:
        place = _place_in_repository(link["target"], uri)
        if not place:
            return link[0]
        inside = TOP.get(place, place.removeprefix("docs/"))
        inside = "index.md" if inside == "README.md" else inside
        relative = posixpath.relpath(inside, posixpath.dirname(uri) or ".")
        return relative + (link["anchor"] or "")

    if uri == "index.md":
        markdown = _PICTURE.sub(r"\g<before>\g<target>", markdown)
    return _FENCE.sub(_as_title, _LINK.sub(move, markdown))


def _as_title(fence: re.Match[str]) -> str:
    named = re.search(r"\b(?:file|of)=(?P<path>\S+)", fence["rest"])
    title = f' title="{named["path"]}"' if named else ""
    return f"{fence['fence']}{fence['language']}{title}"
