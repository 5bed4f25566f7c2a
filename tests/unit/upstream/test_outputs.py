"""What stands around the classes of an output: imports, banner, exports, style."""

from __future__ import annotations

import pytest

from patchgen.upstream.convert import split_getattr
from patchgen.upstream.facts import ImportText
from patchgen.upstream.imports import make_named_text, select_imports, used_names
from patchgen.upstream.style import style


def plain(text, leading=""):
    return ImportText(leading, f"{text}\n", guard=False)


def guard(text, leading=""):
    return ImportText(leading, text, guard=True)


TORCH = guard("if is_torch_available():\n    import torch\n", "\n\n")


@pytest.mark.parametrize(
    ("pool", "body", "wanted"),
    [
        pytest.param(
            [plain("import math"), plain("import re")],
            "x = math.pi\n",
            "import math\n",
            id="unused goes",
        ),
        pytest.param(
            [plain("from a import b, c as d")],
            "x = d\n",
            "from a import c as d\n",
            id="alias is the name",
        ),
        pytest.param(
            [plain("from a import x"), plain("from b import x")],
            "y = x\n",
            "from a import x\n",
            id="first",
        ),
        pytest.param(
            [plain("from a import (\n    b,  # why\n    c,\n)")],
            "y = b, c\n",
            "from a import b, c\n",
            id="comma",
        ),
        pytest.param(
            [plain("from a import T")],
            'def f(x: "list[T]"): ...\n',
            "from a import T\n",
            id="quoted",
        ),
        pytest.param(
            [plain("from a import T")], 'x = {"a": "T"}\n', "", id="a string that is no annotation"
        ),
        pytest.param(
            [plain("from a import pad")],
            "def f(pad):\n    return pad\n",
            "",
            id="hidden by a parameter",
        ),
        pytest.param([plain("from a import pad")], "x = y.pad\n", "", id="an attribute"),
        pytest.param([plain("from a import pad")], "x = f(pad=1)\n", "", id="a keyword"),
        pytest.param(
            [plain("from a import pad")], 'x = f"pad {y}"\n', "", id="text of an f-string"
        ),
        pytest.param(
            [plain("from a import pad")],
            'x = f"{pad}"\n',
            "from a import pad\n",
            id="code of an f-string",
        ),
        pytest.param(
            [TORCH, plain("import re")],
            "x = torch, re\n",
            f"import re\n\n\n{TORCH.text}",
            id="guards come last",
        ),
        pytest.param(
            [plain("import torch"), plain("from u import is_torch_available"), TORCH],
            "x = torch\n",
            "import torch\nfrom u import is_torch_available\n",
            id="what a dropped guard reads counts as used",
        ),
    ],
)
def test_imports_of_a_body(pool, body, wanted):
    assert select_imports(pool, [make_named_text(body)], "modeling", frozenset()) == wanted


@pytest.mark.parametrize("kind", ["image_processing_pil", "feature_extraction"])
def test_torch_is_guarded_in_kinds_that_load_without_it(kind):
    pool = [
        plain("import torch", "\n"),
        plain("from ...utils import logging"),
        plain("from torch import nn"),
    ]
    text = select_imports(pool, [make_named_text("x = torch, nn, logging\n")], kind, frozenset())
    guarded = "if is_torch_available():\n    import torch\n    from torch import nn\n"
    assert text == f"from ...utils import logging, is_torch_available\n{guarded}"


def test_a_function_local_import_is_a_use():
    piece = make_named_text("def f():\n    import torch\n    return torch\n")
    assert used_names([piece], {"torch"}) == {"torch"}


def route(name):
    return "configuration" if name.endswith("Config") else "modeling"


def test_getattr_is_split_and_written_on_one_line():
    text = '__getattr__ = deprecate_attr(\n    __name__,\n    remove={"OldConfig": (A, "1"), "Old": (B, "2")},\n)\n'
    assert split_getattr(text, "", route) == {
        "configuration": "__getattr__ = deprecate_attr(__name__, remove={'OldConfig': (A, '1')})\n",
        "modeling": "__getattr__ = deprecate_attr(__name__, remove={'Old': (B, '2')})\n",
    }


def test_style_finds_what_it_cannot_fix():
    texts = {
        "models/a/modeling_a.py": "x = unknown\n",
        "models/b/modeling_b.py": "x = (\n",
        "models/c/x.py": "x = 'y'\n",
    }
    styled = style(texts)
    assert styled.texts == {"models/a/modeling_a.py": "x = unknown\n", "models/c/x.py": 'x = "y"\n'}
    assert {(fault.path, fault.line, fault.code) for fault in styled.faults} >= {
        ("models/a/modeling_a.py", 1, "PG402"),
        ("models/b/modeling_b.py", 2, "PG404"),
    }
