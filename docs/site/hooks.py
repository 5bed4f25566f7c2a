"""MkDocs hooks: pages that the site has besides those of docs/, and what GitHub's Markdown has not.

The pages are written to be read on GitHub.  For the site, links out of docs/ lead to copies of the
files, and the words behind the language of a code block become its title.  The whole site is at
most 3 MB: records of thousands of rows stay in the source, and pages of the gallery are packed.
"""

from __future__ import annotations

import base64
import gzip
import posixpath
import re
import shutil
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from patchgen import __version__
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
# Tables of thousands of rows, in which nobody searches by words, and what was before.
RECORDS = ("coverage.md", "parity/", "changelog.md")
# What the site leaves to the source: each page below this line, and these files of docs/
# (patterns).
CUT = {"parity/parity.md": "\n## albert_checkpoint\n", "coverage.md": "\n## sdpa: failed\n"}
IN_SOURCE = (r"coverage\.json", r"records/[\w-]+\.(?:md|json)")
SOURCE = "source-of-patchgen:"  # where the link to such a file leads until the address is known
CHANGES = "changes-of-patchgen"  # in the footer, until the page that it stands on is known
WEIGHT = 3_000_000  # bytes of the whole site, at most
PACKED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><noscript>This page is packed, and unpacked by JavaScript.</noscript><script>
(async () => {{
  const packed = Uint8Array.from(atob("{data}"), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const page = await new Response(stream).text();
  document.open();
  document.write(page);
  document.close();
}})();
</script></body></html>
"""
# Modules whose docstrings are the reference, by the title of their page.
MODULES = {
    "Edits": ("patchgen.edits",),
    "Parts": tuple(
        f"patchgen.parts.{name}"
        for name in ("sdpa", "checkpoint", "loss", "flash", "moe", "norm", "gelu", "kernels")
    ),
    "Run time": tuple(
        f"patchgen.runtime.{name}"
        for name in ("load", "register", "export", "checkpointing", "varlen", "grouped_gemm")
    ),
}
_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>\w+)(?P<rest>[^\n`]*)$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
_PICTURE = re.compile(r'(?P<before>(?:src|srcset)=")docs/(?P<target>[^"]+)')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version stands in every title, and in the footer beside the source and the changes."""
    config.site_name = f"patchgen {__version__}"
    config.copyright = f'patchgen {__version__} · <a href="{CHANGES}">changes</a>'
    if config.repo_url:
        config.repo_name = "source"
        config.copyright += f' · <a href="{config.repo_url}">source</a>'
    return config


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


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """The text of a page with links and code blocks as the site needs them."""
    uri = page.file.src_uri
    if uri.startswith(RECORDS):
        page.meta["search"] = {"exclude": True}

    if uri in CUT:
        markdown = (
            markdown.partition(CUT[uri])[0] + f"\nThe rest is in [docs/{uri}]({SOURCE}{uri}).\n"
        )
        # The table leads to headings that are in the rest.
        markdown = re.sub(r"\[([^]\n]+)\]\(#\w+\)", r"\1", markdown)
    names = "|".join(IN_SOURCE)
    markdown = re.sub(rf"\]\((?:\.\./|docs/)*({names})[^)]*\)", rf"]({SOURCE}\1)", markdown)
    to_source = rf"[\1]({config.repo_url}/blob/main/docs/\2)" if config.repo_url else r"\1"
    markdown = re.sub(rf"\[([^]]+)\]\({SOURCE}([^)]+)\)", to_source, markdown)

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


def on_post_page(output: str, page: Page, **_: object) -> str:
    """The page without its indentation and tags of no colour, and with the way to the changes."""
    output = re.sub(r'<span class="[nw]">([^<]*)</span>', r"\1", output)
    parts = re.split(r"(<pre.*?</pre>)", output, flags=re.DOTALL)
    parts[::2] = [re.sub(r"\n\s+", "\n", part) for part in parts[::2]]
    parts[::2] = [re.sub(r' style="text-align: (\w+);"', r" align=\1", part) for part in parts[::2]]
    folder = posixpath.dirname(page.file.dest_uri) or "."
    return "".join(parts).replace(CHANGES, posixpath.relpath("changelog.html", folder))


def on_post_template(output_content: str, **_: object) -> str:
    """The page that says that there is none."""
    return output_content.replace(CHANGES, "/changelog.html")


def on_post_build(config: MkDocsConfig) -> None:
    """Leave out what nobody asks for, pack the gallery, and weigh what is left."""
    site = Path(config.site_dir)
    shutil.rmtree(site / "assets/javascripts/lunr", ignore_errors=True)  # for other languages
    for path in site.rglob("*.map"):  # for those who debug the theme
        path.unlink()
    for path in site.glob("gallery/*.html"):
        text = path.read_text(encoding="utf-8")
        if path.name == "index.html":
            home = f'<h1><a href="../index.html">{config.site_name}</a> / Variants</h1>'
            text = text.replace("<h1>Variants</h1>", home)
        else:
            data = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
            text = PACKED.format(title=path.stem, data=data)
        path.write_text(text, encoding="utf-8", newline="\n")
    weight = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    if weight > WEIGHT:
        raise PluginError(f"the site weighs {weight:,} bytes, more than {WEIGHT:,}")
