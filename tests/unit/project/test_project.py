"""Which modular files a run is about, and where their outputs go."""

import os

import pytest

from patchgen.project.config import Config
from patchgen.project.files import Project, confine, discover, output_folders, profile_of
from patchgen.syntax.errors import PatchgenError


@pytest.fixture
def home(tmp_path):
    return tmp_path.resolve() / "proj"


def project(home, **more):
    config = {key: more.pop(key) for key in ("sources", "outputs", "exclude") if key in more}
    return Project(Config(home, **config), **more)


def touch(home, *names):
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()


def texts_of(found):
    return [modular.display_path for modular in found.modulars]


def messages(found):
    return [str(problem) for problem in found.problems]


def test_sorted_and_only_modular_names(home):
    touch(
        home,
        "m/b/modular_b.py",
        "m/a/modular_a.py",
        "m/a/modeling_a.py",
        "m/a/notes.txt",
        "m/modular.py",
    )
    assert texts_of(discover(project(home, sources=("m",)))) == [
        "m/a/modular_a.py",
        "m/b/modular_b.py",
    ]


@pytest.mark.parametrize(
    "name", [".venv/modular_x.py", "__pycache__/modular_x.py", "lib/site-packages/modular_x.py"]
)
def test_folders_that_are_not_the_projects_are_passed_over(name, home):
    touch(home, f"m/{name}", "m/modular_a.py")
    assert texts_of(discover(project(home, sources=("m",)))) == ["m/modular_a.py"]


@pytest.mark.parametrize("pattern", ["m/old", "m/old/*", "*/old/modular_*"])
def test_exclude(pattern, home):
    touch(home, "m/old/modular_x.py", "m/modular_a.py")
    assert texts_of(discover(project(home, sources=("m",), exclude=(pattern,)))) == [
        "m/modular_a.py"
    ]


def test_misspelt_folder(home):
    touch(home, "modular/modular_a.py")
    found = discover(project(home), [home / "modulr"])
    assert messages(found) == ["modulr: PG506 does not exist\n    hint: did you mean modular?"]


def test_folder_without_modular_files(home):
    touch(home, "m/modeling_a.py")
    found = discover(project(home, sources=("m",)))
    assert messages(found) == [
        "m: PG505 holds no modular file\n    hint: modular files are named modular_NAME.py; "
        "`patchgen new llama --with loss` writes one, for example"
    ]


def test_folder_with_a_linked_folder_only(home):
    touch(home, "away/modular_a.py")
    touch(home, "m/modeling_a.py")
    (home / "m/inner").symlink_to(home / "away")
    (message,) = messages(discover(project(home, sources=("m",))))
    assert message.startswith(
        "m: PG505 holds no modular file\n    hint: m/inner is a link to a folder"
    )
    # A link that is named is followed.
    assert discover(project(home), [home / "m/inner"]).modulars


def test_nothing_named_at_all(home):
    home.mkdir()
    assert [problem.code for problem in discover(project(home)).problems] == ["PG505"]


def test_file_of_another_name(home):
    touch(home, "m/modeling_a.py")
    assert [
        problem.code for problem in discover(project(home), [home / "m/modeling_a.py"]).problems
    ] == ["PG506"]


@pytest.mark.parametrize(
    "name",
    ["modular_x;import os.py", "modular_..py", "modular_a b.py", "modular_x\n.py", "modular_é-.py"],
)
def test_name_that_no_module_can_have(name, home):
    touch(home, f"m/{name}")
    (problem,) = discover(project(home, sources=("m",))).problems
    assert problem.code == "PG506"
    assert "\n" not in problem.at.path


def test_outputs_go_where_the_longest_mapping_says(home):
    mapped = project(home, outputs=(("m", "g"), ("m/special", "s")))
    assert output_folders(mapped)(home / "m/a/b") == home / "g/a/b"
    assert output_folders(mapped)(home / "m/special/c") == home / "s/c"
    assert output_folders(mapped)(home / "other") == home / "other"


def test_out_wins(home, tmp_path):
    mapped = project(home, outputs=(("m", "g"),), out=tmp_path / "out")
    assert output_folders(mapped)(home / "m/a") == tmp_path / "out"


def test_mapping_that_leads_out_of_the_project(home):
    with pytest.raises(
        PatchgenError, match="PG904 tool.patchgen.outputs.m: ../elsewhere leads out of the project"
    ):
        output_folders(project(home, outputs=(("m", "../elsewhere"),)))(home / "m")


def test_confine_accepts_the_project_out_and_package_root(home, tmp_path):
    allowed = project(home, out=tmp_path / "out", package_root=tmp_path / "tree")
    for path in (home / "a/b.py", tmp_path / "out/b.py", tmp_path / "tree/t/b.py"):
        assert confine(allowed, path) == path


def test_profile_is_known_by_the_package(home):
    touch(
        home,
        "t/transformers/__init__.py",
        "t/transformers/models/__init__.py",
        "t/transformers/models/x/__init__.py",
    )
    touch(home, "transformers/models/y/modular_y.py")
    assert profile_of(home / "t/transformers/models/x/modular_x.py") == "transformers"
    assert (
        profile_of(home / "transformers/models/y/modular_y.py") == "strict"
    )  # a folder, no package
    assert profile_of(home / "m/modular_x.py") == "strict"


def test_confine_follows_links(home, tmp_path):
    home.mkdir()
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", home / "link")
    with pytest.raises(PatchgenError, match="PG904"):
        confine(project(home), home / "link/a.py")
