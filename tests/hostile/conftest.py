"""A project of somebody, and the folders around it, each in a place of its own."""

import pytest

from tests.hostile.audit import World
from tests.toytree import toy_project


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World(tmp_path)
    for folder in (world.named, world.cache, world.temporary, world.outside):
        folder.mkdir(mode=0o700)
    tree = toy_project(world.project)
    monkeypatch.chdir(tree.top)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(world.cache))
    monkeypatch.setenv("TMPDIR", str(world.temporary))
    monkeypatch.setattr("tempfile.tempdir", str(world.temporary))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return world
