"""A pull request cannot switch the check off: `--base` takes from a commit what the check goes by."""

import json
import os
import subprocess

import pytest

from patchgen.cli import main
from tests.toytree import toy_project

OUTPUT, MODULAR = "generated/v1/modeling_v1.py", "modular/v1/modular_v1.py"


def git(*words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", *identity, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    tree = toy_project(tmp_path / "project")
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "base")
    return tree


@pytest.fixture
def base(tree):
    return git("rev-parse", "HEAD")


def corrupt(tree):
    tree.edit(OUTPUT, "return 1", "return 7")


def leave_out_of_sources(tree):
    tree.edit("pyproject.toml", '["modular"]', '["modular/v2"]')


def exclude_it(tree):
    tree.edit("pyproject.toml", "roots", 'exclude = ["modular/v1"]\nroots')


def send_it_elsewhere(tree):
    tree.edit("pyproject.toml", 'modular = "generated"', 'modular = "elsewhere"')


def delete_the_table(tree):
    tree.write("pyproject.toml", "")


def delete_the_file(tree):
    tree("pyproject.toml").unlink()


def put_another_below(tree):
    tree.write("modular/pyproject.toml", "[tool.patchgen]\nsources = []\n")


def other_roots(tree):
    tree.write(
        "fork/toy/modeling_toy.py", tree.read("lib/toy/modeling_toy.py").replace("sqrt", "cbrt")
    )
    tree.write("fork/toy/__init__.py", "")
    tree.edit("pyproject.toml", '["lib"]', '["fork"]')


def drop_the_record(tree):
    """With the modular file: what is left is somebody's own file by the rules of the tree."""
    tree(MODULAR).unlink()
    records = json.loads(tree.read("patchgen.lock"))
    del records[OUTPUT]
    tree.write("patchgen.lock", json.dumps(records, indent=1) + "\n")
    text = tree.read(OUTPUT).split("\n", 1)[1]
    tree.write(OUTPUT, text)
    tree(OUTPUT.replace(".py", ".diff")).unlink()


SWITCHES = [
    leave_out_of_sources,
    exclude_it,
    send_it_elsewhere,
    delete_the_table,
    delete_the_file,
]


@pytest.mark.parametrize("switch", [*SWITCHES, drop_the_record], ids=lambda switch: switch.__name__)
def test_a_stale_output_is_found_all_the_same(switch, tree, base, capsys):
    corrupt(tree)
    switch(tree)
    assert main(["check", "--base", base]) == 1
    text = capsys.readouterr().out
    assert OUTPUT in text
    assert "PG515" in text
    assert main(["check", "--base", base, "--output-format", "github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("::warning title=patchgen (PG515),file=") for line in lines)
    assert any(line.startswith("::error") and OUTPUT in line for line in lines)
    assert main(["check", "--base", base, "--output-format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["changes"]


def test_a_configuration_nearer_to_the_paths(tree, base, capsys):
    corrupt(tree)
    put_another_below(tree)
    assert main(["check", "--base", base, "modular"]) == 1
    text = capsys.readouterr().out
    assert f"{OUTPUT}:19:1: PG501" in text
    assert "PG515 the folder of the configuration is modular here and . in the base" in text


def test_each_change_has_its_old_and_new_value(tree, base, capsys):
    exclude_it(tree)
    other_roots(tree)
    drop_the_record(tree)
    main(["check", "--base", base, "--output-format", "json"])
    changes = {
        change.pop("key"): change for change in json.loads(capsys.readouterr().out)["changes"]
    }
    assert changes["tool.patchgen.exclude"] == {
        "file": "pyproject.toml",
        "old": "absent",
        "new": '["modular/v1"]',
    }
    assert changes["tool.patchgen.roots"] == {
        "file": "pyproject.toml",
        "old": '["lib"]',
        "new": '["fork"]',
    }
    assert changes[OUTPUT] == {
        "file": "patchgen.lock",
        "old": f"made from {MODULAR}",
        "new": "absent",
    }


def test_roots_of_the_base(tree, base, capsys):
    other_roots(tree)
    assert main(["convert", "-q"]) == 0
    assert main(["check", "--base", base]) == 1
    assert "is stale" in capsys.readouterr().out


def test_a_recorded_parent(tree, capsys):
    """An override counts as looked at where the record says what the parent says by now."""
    recorded = tree.read("patchgen.overrides.toml")
    base = git("rev-parse", "HEAD")
    tree.edit("lib/toy/modeling_toy.py", "return A().f()", "return A().f() + 1")
    tree.write("patchgen.overrides.toml", recorded.replace("return A().f()", "return A().f() + 1"))
    assert main(["convert", "-q"]) == 0
    assert main(["check", "--base", base]) == 0
    assert (
        "patchgen.overrides.toml: PG515 modular/v1/modular_v1.py: B.g is" in capsys.readouterr().out
    )


def test_an_honest_change_is_green_and_says_nothing(tree, base, capsys):
    tree.edit(MODULAR, "return 1", "return 3")
    tree.write(
        "modular/v3/modular_v3.py", tree.read(MODULAR).replace("B", "A").replace("def g", "def f")
    )
    assert main(["convert", "-q"]) == 0
    capsys.readouterr()
    assert main(["check", "--base", base]) == 0
    assert capsys.readouterr().out == "3 outputs: 3 ok\n"


def test_a_variant_may_go(tree, base, capsys):
    tree(MODULAR).unlink()
    assert main(["check", "--fix", "-q"]) == 0
    capsys.readouterr()
    assert main(["check", "--base", base]) == 0
    assert f"{OUTPUT} is absent here and made from {MODULAR} in the base" in capsys.readouterr().out


def test_a_base_without_a_configuration(tree, capsys):
    git("rm", "-q", "--cached", "pyproject.toml")
    git("commit", "-qm", "before")
    before = git("rev-parse", "HEAD")
    corrupt(tree)
    assert main(["check", "--base", before]) == 1
    text = capsys.readouterr().out
    assert 'tool.patchgen.sources is ["modular"] here and absent in the base' in text
    assert f"{OUTPUT}:" in text


@pytest.mark.parametrize(
    "reference", ["nothing", "0" * 40, "--version", "", "HEAD:pyproject.toml", "a\nb", "HEAD\x1b"]
)
def test_a_commit_that_is_not_there(reference, tree, capsys):
    assert main(["check", "--base", reference]) == 1
    out, err = capsys.readouterr()
    assert "PG516" in err
    assert all(letter.isprintable() or letter == "\n" for letter in out + err)


def test_no_git_and_no_repository(tree, base, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["check", "--base", base]) == 1
    assert "git: PG516 is not installed" in capsys.readouterr().err
    (tree.top / ".git").rename(tree.top / "git")
    assert main(["check", "--base", base]) == 1
    assert "PG516 cannot be read: there is no git repository here" in capsys.readouterr().err


def test_a_git_of_the_repository(tree, base, tmp_path, monkeypatch, capsys):
    program = tree.write("bin/git", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert main(["check", "--base", base]) == 1
    assert not (tmp_path / "ran").exists()


def test_nothing_that_the_repository_configures_is_run(tree, base, tmp_path):
    """Programs of `.git/config`, hooks and attributes; and the environment's."""
    run = f"touch {tmp_path}/ran;"
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.cat-file",
        "core.sshCommand",
        "diff.x.textconv",
        "filter.x.smudge",
    ):
        git("config", key, run)
    git("config", "remote.origin.url", f"ext::sh -c '{run}'")
    git("config", "remote.origin.promisor", "true")
    git("config", "extensions.partialClone", "origin")
    git("config", "alias.cat-file", f"!{run}")
    tree.write(".gitattributes", "* diff=x filter=x\n")
    hook = tree.write(".git/hooks/post-checkout", f"#!/bin/sh\n{run}\n")
    hook.chmod(0o755)
    assert main(["check", "--base", base]) == 0
    assert main(["check", "--base", "1" * 40]) == 1
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_looks_like_a_repository(tree, base, capsys):
    """git would find it in the current folder: HEAD, objects and refs that came with the tree."""
    git("init", "-q", "--bare", "fake")
    for name in ("HEAD", "config"):
        (tree.top / "fake" / name).rename(tree.top / name)
    for name in ("objects", "refs"):
        (tree.top / "fake" / name).rename(tree.top / name)
    assert main(["check", "--base", base]) == 0


def test_a_project_in_a_folder_of_the_repository(tmp_path, monkeypatch, capsys):
    tree = toy_project(tmp_path / "inner" / "project")
    monkeypatch.chdir(tree.top)
    assert main(["convert", "-q"]) == 0
    monkeypatch.chdir(tmp_path)
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "base")
    monkeypatch.chdir(tree.top)
    corrupt(tree)
    exclude_it(tree)
    assert main(["check", "--base", "main", "modular"]) == 1
    assert OUTPUT in capsys.readouterr().out


def test_a_link_in_the_base(tree, capsys):
    tree("pyproject.toml").rename(tree("other.toml"))
    tree("pyproject.toml").symlink_to("other.toml")
    git("add", "-A")
    git("commit", "-qm", "link")
    assert main(["check", "--base", "HEAD"]) == 1
    assert "pyproject.toml: PG516 is no regular file in the base" in capsys.readouterr().err


def test_base_is_about_checking_only(tree, base, capsys):
    assert main(["check", "--fix", "--base", base]) == 2
    assert "--base and --lint are about checking only" in capsys.readouterr().err
