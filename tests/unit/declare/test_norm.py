"""The norm part finds each LayerNorm of torch, under the name that the model's file has for it."""

import ast
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import every_module, find_module, open_module
from patchgen.author.declare.norm import norm
from patchgen.author.declare.request import answer
from patchgen.author.declare.variant import flatten_draft
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def layer_norms(text):
    """How many LayerNorms of torch the constructors of a file create."""
    tree = ast.parse(text)
    names = {"nn.LayerNorm", "torch.nn.LayerNorm"}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "torch.nn":
            names |= {
                alias.asname or alias.name for alias in statement.names if alias.name == "LayerNorm"
            }
    constructors = [
        method
        for owner in tree.body
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    ]
    calls = [
        node for method in constructors for node in ast.walk(method) if isinstance(node, ast.Call)
    ]
    return sum(ast.unparse(call.func) in names for call in calls)


CHOSEN_BY_TABLE = ("internvl", "mobilebert", "qianfan_ocr")
BY_NAME = ("bloom", "deberta_v2", "falcon", "mpt", "paddleocr_vl")


@pytest.mark.parametrize("model", BY_NAME)
def test_a_layer_norm_that_is_imported_by_name_follows_autocast(env, model, tmp_path):
    flat = flatten_draft(answer(env, model, ["norm"]).draft, tmp_path)
    text = next(file.text for file in flat.files if file.kind == "modeling")
    assert layer_norms(text) == 0
    before = open_module(env, find_module(env, model)).source.text
    assert text.count("LowPrecisionLayerNorm(") == layer_norms(before) + 1  # and its definition


@pytest.mark.parametrize("model", CHOSEN_BY_TABLE)
def test_layer_norms_stay_where_a_table_makes_some(env, model):
    try:
        says = "\n".join(map(str, norm(open_module(env, find_module(env, model))).missing))
    except PatchgenError as error:
        says = str(error)
    assert "the LayerNorms stay: `NORM2FN = " in says


@pytest.mark.slow
def test_each_layer_norm_of_transformers_is_declared(env):
    counted = 0
    for name in every_module(env):
        module = open_module(env, name)
        if module.alias in CHOSEN_BY_TABLE:
            continue
        if expected := layer_norms(module.source.text):
            members = [text for item in norm(module).declared for text in item.members]
            mixins = [item for item in norm(module).declared if "LowPrecisionNorm" in item.mixins]
            edits = [ast.parse(text).body[0] for text in members]
            times = [
                next((k.value.value for k in e.decorator_list[0].keywords if k.arg == "count"), 1)
                for e in edits
            ]
            assert len(mixins) + sum(times) == expected, name
            counted += expected
    assert counted > 1000
