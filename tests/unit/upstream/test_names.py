"""Spelling of model names and renaming of text, by the examples that shipped files show."""

import pytest

from patchgen.upstream.names import Renaming, make_table, read_table

TABLE = make_table(
    [
        ("clip", "CLIPConfig"),
        ("llama", "LlamaConfig"),
        ("mamba", "MambaConfig"),
        ("sam", "SamConfig"),
        ("sam2", "Sam2Config"),
        ("glm4v", "Glm4vConfig"),
        ("data2vec-audio", "Data2VecAudioConfig"),
        ("minimax_m3_vl", "MiniMaxM3VLConfig"),
    ]
)


def test_table_of_two_files():
    mappings = 'CONFIG_MAPPING_NAMES = OrderedDict([("a", "AConfig"), ("b", "BConfig")])\n'
    configuration = (
        'CONFIG_MAPPING_NAMES.update({"c": "CConfig"})\n'
        'CONFIG_MAPPING_NAMES = OrderedDict(**{"z": "BConfig"}, **CONFIG_MAPPING_NAMES)\n'
    )
    table = read_table(mappings, configuration)
    assert list(table.config_of) == ["z", "a", "b", "c"]
    assert table.lower("B") == "b"


def renamed(old, new, text):
    return Renaming(old, new, TABLE).apply(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("LlamaModel(llama=LLAMA_X)", "ZNewModel(z_new=Z_NEW_X)", id="three spellings"),
        pytest.param(
            "LLaMA is a LLama", "ZNew is a ZNew", id="any other casing gives the cased name"
        ),
        pytest.param(
            "xllama 2llama _llama", "xllama 2llama _z_new", id="no match after a letter or digit"
        ),
        pytest.param("llamafied", "z_newfied", id="no right boundary"),
        pytest.param(
            'x = f"llama {llama.llama!r:>{llama}} llama"',
            'x = f"llama {z_new.z_new!r:>{z_new}} llama"',
            id="f",
        ),
        pytest.param('x = f"{{llama}}"', 'x = f"{{llama}}"', id="doubled braces are text"),
        pytest.param(
            "import llama\nfrom llama.x import llama\n",
            "import llama\nfrom llama.x import llama\n",
            id="absolute",
        ),
        pytest.param(
            "from .llama import llama  # llama\n",
            "from .z_new import z_new  # z_new\n",
            id="relative",
        ),
        pytest.param(
            '"""\nfrom llama import Llama\n"""',
            '"""\nfrom z_new import ZNew\n"""',
            id="import in a docstring",
        ),
        pytest.param("x = 1  # Copied from llama.y\n", "x = 1  \n", id="Copied from"),
        pytest.param(
            '"# Copied from llama"', '"# Copied from z_new"', id="Copied from in a string"
        ),
    ],
)
def test_apply(text, expected):
    assert renamed("llama", "z_new", text) == expected


def test_capitals_where_the_cased_name_is_all_capitals():
    # x_clip, altclip: the next character decides.
    assert renamed("clip", "x_clip", "CLIPModel CLIP_X CLIP") == "XClipModel X_CLIP_X X_CLIP"
