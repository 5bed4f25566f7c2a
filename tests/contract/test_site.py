"""The site that `make docs` builds: its weight, its links, and what a browser says of it, wide and on a phone."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import patchgen
from tests.toytree import REPOSITORY, environment

pytest.importorskip("mkdocs")
SOURCE = "https://example.org/patchgen"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
VARIANTS = ("albert_checkpoint", "llama_loss")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            if name == "id" and value:
                self.places.add(value)


@pytest.fixture(scope="module")
def site() -> Path:
    """The site with some of the variants, built as `make docs` does."""
    env = environment(PATCHGEN_REPOSITORY=SOURCE, NO_MKDOCS_2_WARNING="1")
    shutil.rmtree(REPOSITORY / "build/gallery", ignore_errors=True)
    for argv in (
        ["patchgen", "page", *VARIANTS, "--out", "build/gallery"],
        ["mkdocs", "build", "--strict", "--quiet"],
    ):
        command = [sys.executable, "-m", *argv]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return REPOSITORY / "build/site"


def test_no_link_is_dead(site: Path) -> None:
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"\w+:|//", link):
                continue
            target, _, place = unquote(link).partition("#")
            at = (
                path
                if not target
                else (site if target[0] == "/" else path.parent) / target.lstrip("/")
            )
            at = Path(os.path.normpath(at))
            if not at.is_file() or (
                place and at in pages and place not in pages[at].places | {"__"}
            ):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_each_page_says_whose_it_is(site: Path) -> None:
    """The name with the version, the mark, the source and the changes."""
    for path in site.rglob("*.html"):
        if path.parent.name == "gallery":
            continue
        page = path.read_text(encoding="utf-8")
        links = Page(page).links
        assert f"patchgen {patchgen.__version__}</title>" in page, path
        assert SOURCE in links, path
        assert any(link.endswith("changelog.html") for link in links), path
        assert any(link.endswith("mark.svg") for link in links), path


def test_the_gallery_says_what_is_gained(site: Path) -> None:
    index = (site / "gallery/index.html").read_text(encoding="utf-8")
    assert index.count(">gains</span>") == len(VARIANTS)
    assert "../index.html" in Page(index).links


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


WIDTH = '<script>addEventListener("load", () => document.title += ` ${document.documentElement.scrollWidth - innerWidth}`)</script>'


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome on the PATH")
@pytest.mark.parametrize("size", ["1400,900", "500,900"], ids=["wide", "phone"])
@pytest.mark.parametrize(
    "name", ["index", "tutorial", "coverage", "gallery/index", "gallery/llama_loss"]
)
def test_a_browser_has_nothing_to_say(
    name: str, size: str, address: str, site: Path, tmp_path: Path
) -> None:
    measured = site / f"{name}-measured.html"
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    if "DecompressionStream" not in text:  # the unpacked page has a test of its own
        text = text.replace("</head>", f"{WIDTH}</head>", 1)
    measured.write_text(text, encoding="utf-8")
    argv = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    argv += ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
    argv += [f"--user-data-dir={tmp_path}", f"--window-size={size}", "--virtual-time-budget=5000"]
    argv += ["--dump-dom", f"{address}/{name}-measured.html"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=True)
    measured.unlink()
    assert "CONSOLE" not in done.stderr, done.stderr
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    if "DecompressionStream" in text:
        assert 'id="declaration"' in done.stdout  # it has unpacked itself
    else:
        assert int(title[1].split()[-1]) <= 0, "it is wider than the window"
