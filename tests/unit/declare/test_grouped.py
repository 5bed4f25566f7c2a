"""`patchgen new --with grouped`: what transformers groups itself, and where the rest is by hand."""

from pathlib import Path

import pytest

from patchgen.author.declare.request import answer
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


LEFT = {
    "jetmoe": ("its experts run one by one", "--from-gallery jetmoe_grouped"),
    "llama4": ("every expert runs on every token", "--from-gallery llama4_grouped"),
    "megatron_bert": ("no experts are run", ""),
}


@pytest.mark.parametrize(("model", "why"), LEFT.items(), ids=LEFT)
def test_what_is_not_grouped_is_named_with_the_gallerys_own(env, model, why):
    with pytest.raises(PatchgenError) as error:
        answer(env, model, ["grouped"])
    (problem,) = problems_of(error.value)
    assert problem.code == "PG803" and why[0] in problem.what and why[1] in problem.hint
    assert bool(problem.at.line) is bool(why[1])
    for name in problem.hint.split()[-1:]:
        folder = Path("modular", name.removesuffix("_grouped"))
        assert (folder / f"modular_{name}.py").is_file()


def test_what_transformers_groups_itself_is_redundant(env):
    found = answer(env, "mixtral", ["grouped"])
    assert not found.text and "experts_implementation='grouped_mm'" in found.left_out[0].redundant
    with pytest.raises(PatchgenError) as error:
        answer(env, "mixtral", ["grouped"], force=True)
    assert [problem.code for problem in problems_of(error.value)] == ["PG803"]
