"""[tool.patchgen]: found from below, checked key by key."""

import pytest

from patchgen.compiler.settings import Settings
from patchgen.project.config import find_config, make_config
from patchgen.syntax.errors import PatchgenError, problems_of


def problems(section, home):
    with pytest.raises(PatchgenError) as caught:
        make_config(section, home)
    return [str(problem) for problem in problems_of(caught.value)]


def test_every_key(tmp_path):
    config = make_config(
        {
            "sources": ["modular"],
            "outputs": {"modular": "generated"},
            "roots": ["lib"],
            "exclude": ["old/*"],
            "flatten": ["toy"],
            "formatter": "black",
            "line-length": 88,
            "decorators": {"use_kernel": "forward", "register_module": ""},
            "warnings-as-errors": True,
            "required-version": ">=0.1,<9",
        },
        tmp_path,
    )
    decorators = (("register_module", ""), ("use_kernel", "forward"))
    assert config.settings == Settings(("toy",), "black", 88, "strict", decorators)
    assert config.warnings_as_errors
    assert (config.sources, config.outputs, config.roots) == (
        ("modular",),
        (("modular", "generated"),),
        ("lib",),
    )


def test_noop_no_keys(tmp_path):
    assert make_config({}, tmp_path).settings == Settings()


@pytest.mark.parametrize(
    "key, value, wanted",
    [
        ("sources", "modular", "a list of folders or files"),
        ("sources", [""], "a list of folders or files"),
        ("line-length", True, "a whole number from 1 to 320"),
        ("line-length", 0, "a whole number from 1 to 320"),
        ("warnings-as-errors", 1, "true or false"),
        ("formatter", "yapf", '"ruff" or "black"'),
        ("outputs", ["g"], 'a table from folder to folder, such as { modular = "generated" }'),
        ("required-version", 1, 'a version such as ">=0.2,<0.3"'),
    ],
)
def test_wrong_type(key, value, wanted, tmp_path):
    expected = f"pyproject.toml: PG901 tool.patchgen.{key}: must be {wanted}, not {value!r}"
    assert problems({key: value}, tmp_path) == [expected]


def test_misspelt_key(tmp_path):
    (message,) = problems({"line-lenght": 88}, tmp_path)
    assert (
        message
        == "pyproject.toml: PG901 tool.patchgen.line-lenght: no such key\n    hint: did you mean line-length?"
    )


def test_the_table_of_another_tool_of_this_name(tmp_path):
    (message,) = problems({"search_root": "models", "sources": ["modular"]}, tmp_path)
    assert "VeOmni's generator" in message


def test_the_table_must_be_a_table(tmp_path):
    assert problems([], tmp_path) == ["pyproject.toml: PG901 [tool.patchgen] must be a table"]


def test_required_version_that_is_no_version(tmp_path):
    (message,) = problems({"required-version": "new"}, tmp_path)
    assert "'new' is no version" in message


@pytest.mark.parametrize(
    "wanted, fits",
    [
        ("0.2", True),
        ("==0.2.0", True),
        (">=0.1, <0.3", True),
        ("!=0.2", False),
        (">0.2", False),
        ("<=0.1.9", False),
    ],
)
def test_required_version(wanted, fits, tmp_path, monkeypatch):
    monkeypatch.setattr("patchgen.__version__", "0.2.0")
    if fits:
        make_config({"required-version": wanted}, tmp_path)
    else:
        assert problems({"required-version": wanted}, tmp_path)


def test_nearest_table_wins_and_files_without_it_are_passed_over(tmp_path):
    inner = tmp_path / "a/b/c"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.patchgen]\nline-length = 99\n")
    (tmp_path / "a/b/pyproject.toml").write_text("[tool.ruff]\nline-length = 20\n")
    config = find_config([inner])
    assert (config.home, config.settings.line_length) == (tmp_path.resolve(), 99)


def test_first_start_with_a_table_wins(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "two/pyproject.toml").write_text("[tool.patchgen]\n")
    assert find_config([tmp_path / "one", tmp_path / "two"]).home == tmp_path / "two"


@pytest.mark.parametrize("marker", ["pyproject.toml", ".git"])
def test_home_without_a_table_is_the_top_of_the_project(marker, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / marker).write_text("")
    assert find_config([tmp_path / "sub"]).home == tmp_path


def test_bad_toml_is_placed(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.patchgen]\nsources = [\n")
    with pytest.raises(PatchgenError) as caught:
        find_config([tmp_path])
    at = caught.value.problem.at
    assert (caught.value.problem.code, at.path) == ("PG901", "pyproject.toml")
    assert at.line == 3 or at.line == 0  # Python 3.11 says "end of document"


def test_required_version_that_this_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("patchgen.__version__", "0.1.0")
    (message,) = problems({"required-version": ">=7"}, tmp_path)
    assert (
        "PG902 the project requires patchgen >=7, this is 0.1.0\n    hint: install such a release from where this one came from: "
        in message
    )
