"""No hint and no page installs what an index has under patchgen's name: nobody of us put it there."""

import json
import re
from importlib.metadata import Distribution, PackageNotFoundError

import pytest

from patchgen.project.origin import install_hint
from tests.toytree import REPOSITORY

# `pip install patchgen...`, also with quotes, options and other packages before it.
INSTALLED = re.compile(
    r"(?:pip3?|pipx|uv) (?:tool )?(?:install|add)\b[^\n`&]*?[ \t'\"]patchgen(?![\w/.-])(?!\[[^\n]*\] @)"
)
READ = "*.md docs/*.md patchgen/**/*.py patchgen/**/*.toml patchgen/**/*.yml patchgen/**/*.yaml utils/*.py action.yml Dockerfile"


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (
            {"url": "file:///home/me/my%20patchgen", "dir_info": {"editable": True}},
            "pip install '/home/me/my patchgen[train]'",
        ),
        (
            {"url": "file:///tmp/patchgen-0.1-py3-none-any.whl", "archive_info": {}},
            "pip install '/tmp/patchgen-0.1-py3-none-any.whl[train]'",
        ),
        (
            {"url": "https://x.org/patchgen-0.1-py3-none-any.whl", "archive_info": {}},
            "pip install 'patchgen[train] @ https://x.org/patchgen-0.1-py3-none-any.whl'",
        ),
        (
            {"url": "https://x.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
            "pip install 'patchgen[train] @ git+https://x.org/p.git@ab12'",
        ),
        (None, "pip install 'path/to/patchgen[train]'"),
    ],
    ids=["clone", "wheel", "wheel elsewhere", "repository", "index"],
)
def test_a_hint_names_where_this_patchgen_came_from(record, hint, monkeypatch):
    class Installed(Distribution):
        def read_text(self, filename):
            return None if record is None else json.dumps(record)

        def locate_file(self, path):
            raise NotImplementedError

    monkeypatch.setattr("patchgen.project.origin.distribution", lambda name: Installed())
    assert install_hint("train") == hint


def test_a_clone_that_is_not_installed(monkeypatch):
    def not_there(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("patchgen.project.origin.distribution", not_there)
    assert install_hint("train") == f"pip install '{REPOSITORY}[train]'"


@pytest.mark.parametrize(
    "text",
    ["pip install patchgen", "pip install -q 'patchgen[x]'", 'uv tool install "patchgen>=1"'],
)
def test_it_finds_each_way(text):
    assert INSTALLED.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install path/to/patchgen",
        "pip install 'path/to/patchgen[x]'",
        "pip install 'patchgen[x] @ git+https://x'",
    ],
)
def test_it_passes_ours(text):
    assert not INSTALLED.search(text)


def test_no_page_and_no_message_names_an_index():
    files = [path for pattern in READ.split() for path in REPOSITORY.glob(pattern)]
    found = [
        f"{path.relative_to(REPOSITORY)}: {match[0]}"
        for path in files
        if path.name not in ("CHANGELOG.md", "LOG.md")
        for match in INSTALLED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 300
    assert not found
