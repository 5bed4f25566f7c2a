"""Releases are read from files; nothing is imported."""

import importlib.metadata

from patchgen.project.versions import own_digest, release_of, tool_versions, versions
from patchgen.syntax.locate import make_environment


def test_tools_are_those_that_the_metadata_names():
    assert tool_versions() == {
        name: importlib.metadata.version(name) for name in ("black", "libcst", "ruff")
    }


def test_release_of_a_package_is_what_its_top_states(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text(
        '"""Doc."""\n\n__version__ = "1.2.3.dev0"\nraise SystemExit\n'
    )
    env = make_environment(tmp_path, search=[])
    assert release_of("pack", env) == "1.2.3.dev0"
    assert release_of("absent", env) == ""


def test_only_the_formatter_in_use_counts(tmp_path):
    env = make_environment(tmp_path, search=[])
    assert [name for name, _ in versions(env, "ruff")] == ["libcst", "patchgen", "ruff"]
    assert [name for name, _ in versions(env, "black")] == ["black", "libcst", "patchgen"]


def test_own_digest_is_a_digest():
    assert len(own_digest()) == 64
