"""The command line, as users of ruff expect it: options, streams, exit codes, formats, speed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

from patchgen.cli import main
from patchgen.cli.commands import COMMANDS, GROUPS, OLD, load_command
from patchgen.cli.commands import patchgen as command_line
from tests import standin
from tests.toytree import REPOSITORY, command, environment, run, toy_project, variant

ONE, TWO = "generated/one/modeling_one.py", "generated/two/modeling_two.py"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = standin.standin_project(tmp_path / "proj")
    standin.install(monkeypatch)
    monkeypatch.chdir(tree.top)
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "user-cache"))
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    return tree


# Usage


@pytest.mark.parametrize(
    "argv", [["--help"], ["-h"], ["convert", "--help"], ["check", "-h"], ["explain", "--help"]]
)
def test_help(argv, capsys):
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith("Usage: patchgen")


def test_help_names_what_there_is():
    """`--help` must not import the modules that define these, so each is written twice."""
    from patchgen.cli.commands.verify import DTYPES as COMMAND_DTYPES
    from patchgen.verifying.variants import DTYPES

    assert COMMAND_DTYPES == DTYPES


def test_help_says_in_one_line_what_each_command_does(capsys):
    assert main(["--help"]) == 0
    _, _, groups = capsys.readouterr().out.partition("--help  ")
    summaries = [line for line in groups.splitlines()[1:] if line.startswith("  ")]
    assert [line.split()[0] for line in summaries] == list(COMMANDS)
    assert [line for line in summaries if line.endswith("...")] == []


# What a command takes beside a name, where it wants more.
NAMES_A_VARIANT = {
    "check": "nothing",
    "convert": "nothing",
    "diff": "nothing",
    "explain": "nothing",
    "lint": "nothing",
    "list": "nothing",
    "page": "nothing --out pages",
    "rebase": "nothing",
    "survive": "nothing",
}
NAMES_SOMETHING = {
    **NAMES_A_VARIANT,
    "export": "nothing --out exported",
    "memory": "nothing --tiny",
    "new": "nothing --with loss",
    "train": "nothing",
    "verify": "nothing",
}


@pytest.mark.parametrize("name", NAMES_SOMETHING)
def test_a_name_of_nothing_has_one_exit_code(name, tree, capsys):
    assert main([name, *NAMES_SOMETHING[name].split()]) == 2
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES_A_VARIANT)
def test_a_command_takes_the_name_of_a_variant(name, tmp_path, monkeypatch, capsys):
    toy_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "-q"]) == 0
    assert main([name, *NAMES_A_VARIANT[name].replace("nothing", "v1").split()]) == 0
    assert "v2" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("check o", "one"),
        ("explain o", "one"),
        ("export t", "two"),
        ("new qwen3_m", "qwen3_moe"),
        ("new llama --with norm,lo", "norm,loss"),
    ],
)
def test_names_are_completed(words, completed, tree):
    arguments = words.split()
    complete = ShellComplete(command_line, {}, "patchgen", "_PATCHGEN_COMPLETE")
    items = complete.get_completions(arguments[:-1], arguments[-1])
    assert completed in [item.value for item in items]


def test_there_are_fifteen_commands_beside_those_of_shells_and_editors():
    assert len(COMMANDS) == 15 + len(GROUPS["Editor and shell"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("diff", "check --diff"),
        ("lint", "check --lint"),
        ("survive", "rebase --releases all"),
        ("errors PG501", "explain PG501"),
    ],
)
def test_an_old_name_still_works_and_says_the_new_one(old, new, tmp_path, monkeypatch, capsys):
    toy_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "-q"]) == 0
    capsys.readouterr()
    assert main(old.split()) == 0
    before = capsys.readouterr()
    name = old.split()[0]
    assert before.err.startswith(f"patchgen: `{name}` is `patchgen {OLD[name]}` now\n")
    assert main(new.split()) == 0
    now = capsys.readouterr()
    assert "now" not in now.err
    # `check --lint` also says what `check` says.
    assert now.out == before.out or name == "lint"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("adopt modeling_mine.py --write made", "`--write` is `--out` now"),
        ("adopt modeling_mine.py --write=made", "`--write` is `--out` now"),
        ("verify v1 --report made", "`--report` is `--out` now"),
    ],
)
def test_an_old_option_is_read_and_says_the_new_one(old, new, tree, capsys):
    """What comes behind `--` is another program's."""
    main(old.split())
    assert new in capsys.readouterr().err
    main(["unpatch", "--no-verify", "--", "python", "nothing.py", "--write", "x"])
    assert "now" not in capsys.readouterr().err


FOR_NOTHING = """from transformers.models.llama import modeling_llama as llama


class LlamaMLP(llama.LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.scale = 2

    def forward(self, x):
        return super().forward(x)
"""


def test_lint_is_said_by_check(tmp_path, monkeypatch, capsys):
    tree = toy_project(tmp_path, variants=1)
    monkeypatch.chdir(tmp_path)
    tree.write("modular/llama/modular_llama_x.py", FOR_NOTHING)
    assert main(["convert", "-q"]) == 0
    assert main(["check"]) == 0
    capsys.readouterr()
    assert main(["check", "--lint"]) == 1
    assert "PG741" in capsys.readouterr().out
    assert main(["check", "--lint", "--fix"]) == 2


@pytest.mark.parametrize("code", ["PG501", "pg501"])
def test_a_code_is_explained(code, capsys):
    assert main(["explain", code]) == 0
    assert "PG501: " in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_that_parses(name, capsys):
    """The options of the examples exist; a full run of them is too long for a test."""
    assert main([name, "--help"]) == 0
    _, _, example = capsys.readouterr().out.partition("Example:\n")
    lines = [line.split() for line in example.partition("\n\n")[0].splitlines()]
    assert lines
    for program, verb, *arguments in lines:
        assert (program, verb) == ("patchgen", name)
        parser = load_command(name).make_parser(click.Context(command_line))
        parser.parse_args(arguments)


@pytest.mark.parametrize(
    "argv",
    [
        ["convrt"],
        ["check", "--output-format", "xml"],
        ["check", "--jobs", "many"],
        ["check", "--jobs", "-1"],
        ["check", "--package-root", "nowhere"],
        ["convert", "-"],
        ["explain"],
        ["errors", "PG000"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2_and_has_no_traceback(argv, tree, capsys):
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    assert err


def test_version_names_what_outputs_depend_on(capsys):
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "patchgen",
        "black",
        "libcst",
        "ruff",
        "transformers",
    ]


def test_bad_configuration_is_2(tree, capsys):
    tree.write("pyproject.toml", "[tool.patchgen]\nsource = []\n")
    assert main(["check"]) == 2
    assert capsys.readouterr().err == (
        "pyproject.toml: PG901 tool.patchgen.source: no such key\n    hint: did you mean sources?\n"
    )


@pytest.mark.parametrize("code", ["PG501", "pg501"])
def test_errors_explains_a_code(code, capsys):
    assert main(["errors", code]) == 0
    assert capsys.readouterr().out.startswith("PG501: an output is stale\n\n")


def test_errors_lists_all_codes(capsys):
    assert main(["errors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(lines)
    assert all(re.match(r"PG\d{3}  \S", line) for line in lines)


@pytest.mark.parametrize("beginning", ["PG1", "pg1", "Pg10"])
def test_errors_lists_the_codes_that_begin_so(beginning, capsys):
    assert main(["errors", beginning]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert all(line.startswith(beginning.upper()) for line in lines)


def test_internal_error_is_one_paragraph(tree, monkeypatch, capsys):
    monkeypatch.setattr("patchgen.cli.session.discover", lambda *_: 1 / 0)
    assert main(["check"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("patchgen: internal error at test_cli.py:")
    assert (
        "ZeroDivisionError: division by zero. This is a defect of patchgen; please report it" in err
    )
    assert err.count("\n") == 1


def test_scripts_run_the_commands_of_their_names(tmp_path):
    tree = toy_project(tmp_path / "proj", variants=2)
    env = environment(PYTHONPATH="")

    def script(name, *argv):
        argv = [sys.executable, str(REPOSITORY / "utils" / name), *argv]
        return subprocess.run(argv, cwd=tree.top, env=env, capture_output=True, text=True)

    done = script("modular_converter.py", "modular/v1/modular_v1.py")
    said = done.stderr.splitlines()[-1]
    assert (done.returncode, said) == (0, "2 written, 0 removed, 0 unchanged")
    assert script("check_modular.py").returncode == 1
    assert script("check_modular.py", "--fix", "--jobs", "1").returncode == 0
    assert script("check_modular.py").returncode == 0


# Streams and formats


def test_report_goes_to_stdout_and_progress_to_stderr(tree, capsys):
    assert main(["convert"]) == 0
    out, err = capsys.readouterr()
    assert all(": note: " in line for line in out.splitlines())
    assert err.splitlines()[-1] == "4 written, 0 removed, 0 unchanged"
    assert main(["check"]) == 0
    assert capsys.readouterr() == ("2 outputs: 2 ok\n", "")


def test_quiet_prints_findings_only(tree, capsys):
    assert main(["check", "-q"]) == 1
    out = capsys.readouterr().out
    assert [line.split(": ")[1][:5] for line in out.splitlines() if line[0] != " "] == [
        "PG502",
        "PG502",
    ]
    main(["convert", "-q"])
    assert main(["check", "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_verbose_prints_what_is_well_and_notes(tree, capsys):
    main(["convert", "-q"])
    capsys.readouterr()
    assert main(["check", "-v"]) == 0
    out = capsys.readouterr().out
    assert f"{ONE}: ok (from modular/one/modular_one.py)\n" in out
    assert "modular/one/modular_one.py:1:1: note: a note\n" in out


def test_github_is_the_default_on_its_runners(tree, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["check", "modular/one"]) == 1
    message = (
        f"{ONE}: PG502 is missing; modular/one/modular_one.py gives it%0A"
        "    hint: run `patchgen convert`"
    )
    assert capsys.readouterr().out == f"::error title=patchgen (PG502),file={ONE}::{message}\n"
    assert main(["check", "--output-format", "text"]) == 1
    assert capsys.readouterr().out.startswith(f"{ONE}: PG502")


def test_format_from_the_environment(tree, monkeypatch, capsys):
    monkeypatch.setenv("PATCHGEN_OUTPUT_FORMAT", "json")
    assert main(["check"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


def test_annotations_escape_what_would_end_them():
    from patchgen.cli.report import Page, as_github
    from patchgen.syntax.errors import Location, Problem

    problem = Problem(Location("a,b:c.py", 3, 4), "PG501", "100% of\rit", "a\nb")
    assert as_github(Page(findings=(problem,))) == [
        "::error title=patchgen (PG501),file=a%2Cb%3Ac.py,line=3,col=4"
        "::a,b:c.py:3:4: PG501 100%25 of%0Dit%0A    hint: a%0Ab"
    ]


@pytest.mark.parametrize("argv", [["check"], ["convert"], ["lint"]], ids=" ".join)
def test_json_is_a_whole_document_on_every_command(argv, tree, capsys):
    tree.edit("modular/one/modular_one.py", "from toy", "from toi")
    assert main([*argv, "--output-format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    (problem,) = [p for p in report["problems"] if p["code"] == "PG101"]
    assert (problem["path"], problem["line"], problem["severity"]) == (
        "modular/one/modular_one.py",
        1,
        "error",
    )


def test_check_writes_nothing_but_its_cache(tree):
    before = tree.snapshot()
    assert main(["check"]) == 1
    assert tree.snapshot() == before
    assert (tree.state / "outcomes").is_dir()


# As a process


def test_closed_stdout_is_no_error(tmp_path):
    tree = toy_project(tmp_path / "proj", variants=1)
    shell = f"{' '.join(command('explain', 'PG'))} | head -1"
    done = subprocess.run(
        shell, shell=True, cwd=tree.top, env=environment(), capture_output=True, text=True
    )
    assert (done.stdout.split()[0], done.stderr) == ("PG001", "")


def test_full_device_is_an_error_of_one_line(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no full device")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("explain", "PG"),
            env=environment(),
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_no_colour_and_no_bar_where_there_is_no_terminal(tmp_path):
    tree = toy_project(tmp_path / "proj", variants=3)
    done = run(tree, "convert", env={"COLUMNS": "20"})
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "more, coloured", [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)]
)
def test_bar_on_a_terminal(more, coloured, tmp_path):
    """A pseudo-terminal shows the bar at once, and without colour if NO_COLOR is set."""
    import pty

    tree = toy_project(tmp_path / "proj", variants=3)
    script = (
        "import sys; from patchgen.cli import main, terminal; terminal.PATIENCE = 0; "
        "sys.exit(main(['convert']))"
    )
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tree.top,
        env=environment(**more),
        stderr=slave,
        stdout=subprocess.PIPE,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    process.communicate()
    assert process.returncode == 0
    assert b"flattening" in seen
    assert (re.search(rb"\x1b\[[\d;]*m", seen) is not None) == coloured


def test_shell_completion(tmp_path):
    env = environment(_PATCHGEN_COMPLETE="bash_complete", COMP_WORDS="patchgen ch", COMP_CWORD="1")
    done = subprocess.run(command(), env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "plain,check\n"


def test_works_in_a_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        f"import os, sys; os.rmdir({str(gone)!r}); from patchgen.cli import main; "
        "sys.exit(main(['check']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=gone, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_stdin_gives_utf_8_whatever_the_locale(tmp_path):
    tree = toy_project(tmp_path / "proj", variants=1)
    text = tree.write("modular/v1/modular_v1.py", variant("A", "ü")).read_bytes()
    assert run(tree, "convert").returncode == 0
    argv = command("convert", "-", "--stdin-filename", "modular/v1/modular_v1.py")
    env = environment(PYTHONIOENCODING="ascii")
    done = subprocess.run(argv, input=text, cwd=tree.top, env=env, capture_output=True)
    assert done.stdout == tree("generated/v1/modeling_v1.py").read_bytes()


def test_optimised_python_gives_the_same(tmp_path):
    one, two = (toy_project(tmp_path / name, variants=2) for name in ("one", "two"))
    assert run(one, "convert").returncode == 0
    argv = [sys.executable, "-OO", "-m", "patchgen", "convert"]
    assert subprocess.run(argv, cwd=two.top, env=environment(), capture_output=True).returncode == 0
    assert one.contents() == two.contents()


def test_umask_shapes_new_files_only(tmp_path):
    tree = toy_project(tmp_path / "proj", variants=1)
    assert run(tree, "convert", umask=0o077).returncode == 0
    assert tree("generated/v1/modeling_v1.py").stat().st_mode & 0o777 == 0o600


# A busy machine is slow, so these tests check which modules are loaded, and time the best of
# several runs.


def fastest(times, *argv, cwd):
    """The fewest CPU seconds of the process; other processes change them less than wall time."""
    best = float("inf")
    for _ in range(times):
        before = os.times()
        subprocess.run(command(*argv), cwd=cwd, env=environment(), capture_output=True, check=True)
        after = os.times()
        spent = (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        best = min(best, spent)
    return best


def test_help_starts_fast(tmp_path):
    assert fastest(5, "--help", cwd=tmp_path) < 0.3


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A project of 20 variants, converted and checked once."""
    tree = toy_project(tmp_path_factory.mktemp("clean") / "proj", variants=20)
    assert run(tree, "convert").returncode == 0
    return tree


def test_unchanged_check_of_20_outputs_is_fast(clean):
    assert fastest(5, "check", cwd=clean.top) < 0.5


@pytest.mark.parametrize("argv", [["check"], ["convert"], ["list"], ["diff"]], ids=" ".join)
def test_unchanged_run_does_not_load_the_core(argv, clean):
    script = (
        "import sys; from patchgen.cli import main; code = main(sys.argv[1:]); "
        "heavy = ['libcst', 'rich', 'black', 'patchgen.compiler.flatten', 'torch', "
        "'transformers', 'multiprocessing.pool']; "
        "sys.exit(code or str([name for name in heavy if name in sys.modules]))"
    )
    argv = [sys.executable, "-c", script, *argv]
    done = subprocess.run(argv, cwd=clean.top, env=environment(), capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_loads_nothing_that_works():
    script = (
        "import sys; from patchgen.cli import main; main(['check', '--help']); "
        "names = ('libcst', 'rich', 'patchgen.project.run', 'patchgen.project.files'); "
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_one_changed_file_is_the_only_one_that_is_flattened(clean, monkeypatch, capsys):
    import patchgen.compiler.flatten

    real, seen = patchgen.compiler.flatten.make_draft, []
    monkeypatch.setattr(
        patchgen.compiler.flatten,
        "make_draft",
        lambda path, *rest: seen.append(path.name) or real(path, *rest),
    )
    monkeypatch.chdir(clean.top)
    assert main(["check", "-q"]) == 0
    seen.clear()
    old = clean.read("modular/v7/modular_v7.py")
    clean.write("modular/v7/modular_v7.py", variant("A", "seven"))
    assert main(["check", "-q"]) == 1
    assert set(seen) == {"modular_v7.py"}
    clean.write("modular/v7/modular_v7.py", old)
