"""Each code of `patchgen lint` on the smallest pair of files that has it, and on its nearest relative that has not.

What is shipped is what the profile `transformers` makes of the pair.
"""

from __future__ import annotations

import textwrap

import pytest

from patchgen.upstream.convert import convert
from patchgen.upstream.files import Files
from patchgen.upstream.lint.case import make_case
from patchgen.upstream.lint.findings import findings

IMPORT = "from torch import nn\nfrom ..old.modeling_old import {names}\n\n\n"
PARENT = "from torch import nn\n\n\n"


def lint(tmp_path, parent, child, names="OldLayer", shipped=None):
    """The findings for a modular file `child` of a model `new` that imports `names` of model `old`."""
    models = tmp_path / "transformers/models"
    for folder in ("old", "new", "auto"):
        (models / folder).mkdir(parents=True, exist_ok=True)
    (models / "old/modeling_old.py").write_text(PARENT + textwrap.dedent(parent))
    path = models / "new/modular_new.py"
    path.write_text(IMPORT.format(names=names) + textwrap.dedent(child))
    if shipped is None:
        for output in convert(path, Files().text):
            (models / f"new/{output.kind}_new.py").write_text(output.text)
    elif shipped:
        (models / "new/modeling_new.py").write_text(PARENT + textwrap.dedent(shipped))
    return list(
        findings(make_case(path, Files().text, lambda p: p.relative_to(tmp_path).as_posix()))
    )


def codes(found):
    return sorted({problem.code for problem in found})


LAYER = """
class OldLayer(nn.Module):
    size = 1

    def __init__(self, config):
        super().__init__()
        self.act = config.act
        self.width = config.width

    def forward(self, x, scale=1):
        count = x.shape[0]
        return self.act(x) * count * scale

    def rest(self, x):
        return x
"""

FIRES = {
    "PG702 a variable of __init__ in forward": (
        "PG702",
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                count = config.count
                self.count = count

            def forward(self, x, scale=1):
                return super().forward(x, scale)
        """,
    ),
    "PG703 removal directly under the class line": (
        "PG703",
        LAYER,
        """
        class NewLayer(OldLayer):
            def rest(self, x):
                raise AttributeError("not needed")
        """,
    ),
    "PG704 method over attribute": (
        "PG704",
        LAYER,
        """
        class NewLayer(OldLayer):
            def size(self):
                return 2
        """,
    ),
    "PG705 half of a word": (
        "PG705",
        """
        class OldLayer(nn.Module):
            def forward(self, x):
                raise ValueError("the oldest one")
        """,
        """
        class NewLayer(OldLayer):
            pass
        """,
    ),
    "PG706 reads what is made later": (
        "PG706",
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                wide = config.wide
                self.act = wide + 1
        """,
    ),
    "PG707 a call twice": (
        "PG707",
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                self.grow()
                self.grow()
        """,
    ),
    "PG708 annotated constant": (
        "PG708",
        LAYER,
        """
        LIMIT: int = 3

        class NewLayer(OldLayer):
            pass
        """,
    ),
    "PG709 annotated constant that is used": (
        "PG709",
        LAYER,
        """
        LIMIT: int = 3

        class NewLayer(OldLayer):
            def rest(self, x):
                return x[:LIMIT]
        """,
    ),
    "PG711 block in a class body": (
        "PG711",
        LAYER,
        """
        class NewLayer(OldLayer):
            for number in (1, 2):
                print(number)
        """,
    ),
    "PG712 abstract method": (
        "PG712",
        LAYER,
        """
        class NewLayer(OldLayer):
            size = 2

            def rest(self, x):
                raise NotImplementedError("not here")
        """,
    ),
    "PG713 the parent's value is read in between": (
        "PG713",
        """
        class OldLayer(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.width = config.width
                self.half = self.width // 2
        """,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                self.width = 8
        """,
    ),
    "PG720 a del of two at once": (
        "PG720",
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                del self.act, self.width
        """,
    ),
    "PG724 decorator of the parent": (
        "PG724",
        """
        class OldLayer(nn.Module):
            @staticmethod
            def rest(x):
                return x
        """,
        """
        class NewLayer(OldLayer):
            def rest(self, x):
                return x + 1
        """,
    ),
    "PG727 module made behind post_init": (
        "PG727",
        """
        class OldModel(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.act = config.act
                self.post_init()
        """,
        """
        class NewModel(OldModel):
            def __init__(self, config):
                super().__init__(config)
                self.head = nn.Linear(2, 2)
        """,
    ),
    "PG728 super_kwargs": (
        "PG728",
        LAYER,
        """
        class NewLayer(OldLayer):
            def forward(self, **super_kwargs):
                return super().forward(**super_kwargs)
        """,
    ),
    "PG729 another value is passed": (
        "PG729",
        LAYER,
        """
        class NewLayer(OldLayer):
            def forward(self, x, scale=1):
                return super().forward(x, 2)
        """,
    ),
    "PG730 value of super()": (
        "PG730",
        LAYER,
        """
        class NewLayer(OldLayer):
            def forward(self, x, scale=1):
                out = super().forward(x, scale)
                return out + 1
        """,
    ),
    "PG731 result thrown away": (
        "PG731",
        LAYER,
        """
        class NewLayer(OldLayer):
            def forward(self, x, scale=1):
                super().forward(x, scale)
        """,
    ),
}


@pytest.mark.parametrize("code, parent, child", FIRES.values(), ids=FIRES)
def test_fires(code, parent, child, tmp_path):
    names = "OldModel" if "OldModel" in child else "OldLayer"
    found = [problem for problem in lint(tmp_path, parent, child, names) if problem.code == code]
    assert found, "not found"
    assert {problem.severity for problem in found} == {"warning"}
    assert {problem.at.path for problem in found} == {"transformers/models/new/modular_new.py"}
    assert all(problem.at.line > 4 for problem in found)


FIRES["PG732 nobody is initialised"] = (
    "PG732",
    LAYER,
    """
    class NewLayer(OldLayer):
        def __init__(self, config):
            nn.Module.__init__()
            self.act = None
    """,
)

SILENT = {
    "nothing changed": (LAYER, "class NewLayer(OldLayer):\n    pass\n"),
    "an assignment in the parent's place": (
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                self.act = nn.Linear(1, 1)
                del self.width
        """,
    ),
    "the same variable in two methods, with one value": (
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                other = config.count
                self.count = other

            def forward(self, x, scale=1):
                return super().forward(x, scale)
        """,
    ),
    "removals that are recognised": (
        LAYER,
        """
        class NewLayer(OldLayer):
            size = AttributeError()

            def rest(self, x):
                raise AttributeError("not needed")
        """,
    ),
    "attribute removed, method of its name": (
        LAYER,
        """
        class NewLayer(OldLayer):
            def rest(self, x):
                return 2 * x
        """,
    ),
    "a word that only begins alike in capitals": (
        """
        class OldLayer(nn.Module):
            def forward(self, x):
                raise ValueError("of OldLayer: older")
        """.replace(": older", ", a bold one"),
        "class NewLayer(OldLayer):\n    pass\n",
    ),
    "the same assignment twice": (
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                super().__init__(config)
                self.size = config.size
                self.size = config.size
        """,
    ),
    "post_init once more": (
        """
        class OldModel(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.act = config.act
                self.post_init()
        """,
        """
        class NewModel(OldModel):
            def __init__(self, config):
                super().__init__(config)
                self.head = nn.Linear(2, 2)
                self.post_init()
        """,
    ),
    "a number behind post_init": (
        """
        class OldModel(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.act = config.act
                self.post_init()
        """,
        """
        class NewModel(OldModel):
            def __init__(self, config):
                super().__init__(config)
                self.count = config.count
        """,
    ),
    "docstrings and annotations": (
        LAYER,
        '''
        class NewLayer(OldLayer):
            """Its own."""

            def rest(self, x: int) -> int:
                """Nothing."""
                return x
        ''',
    ),
    "the parent by name": (
        LAYER,
        """
        class NewLayer(OldLayer):
            def __init__(self, config):
                nn.Module.__init__(self)
                self.act = None
        """,
    ),
    "arguments by name": (
        LAYER,
        """
        class NewLayer(OldLayer):
            def forward(self, x, scale=1):
                return super().forward(x=x, scale=scale)
        """,
    ),
    "a plain constant": (
        LAYER,
        "LIMIT = 3\n\n\nclass NewLayer(OldLayer):\n    def rest(self, x):\n        return LIMIT\n",
    ),
}


@pytest.mark.parametrize("parent, child", SILENT.values(), ids=SILENT)
def test_is_silent(parent, child, tmp_path):
    names = "OldModel" if "OldModel" in child else "OldLayer"
    assert [str(problem) for problem in lint(tmp_path, parent, child, names)] == []


def test_a_class_that_is_not_shipped(tmp_path):
    assert codes(
        lint(tmp_path, LAYER, "class NewLayer(OldLayer):\n    pass\n", shipped="X = 1\n")
    ) == ["PG710"]


def test_what_inheritance_would_not_give(tmp_path):
    shipped = """
    class NewLayer(nn.Module):
        size = 2

        def __init__(self, config, more=1):
            super().__init__()
            self.act = config.act
            self.width = config.width

        def forward(self, x, scale=1):
            count = x.shape[0]
            return self.act(x) * count * scale
    """
    found = lint(tmp_path, LAYER, "class NewLayer(OldLayer):\n    pass\n", shipped=shipped)
    assert codes(found) == ["PG721", "PG722", "PG725"]


def test_two_parents_with_one_helper(tmp_path):
    (tmp_path / "transformers/models/third").mkdir(parents=True)
    helper = "def turn(x):\n    return {}\n\n\nclass {}(nn.Module):\n    def forward(self, x):\n        return turn(x)\n"
    (tmp_path / "transformers/models/third/modeling_third.py").write_text(
        PARENT + helper.format("-x", "ThirdLayer")
    )
    child = """
    from ..third.modeling_third import ThirdLayer


    class NewLayer(OldLayer):
        pass


    class NewOther(ThirdLayer):
        pass
    """
    found = lint(tmp_path, helper.format("x", "OldLayer"), child)
    assert [(p.code, p.at.line) for p in found] == [("PG726", 13)]


def test_a_constant_of_the_modular_file_loses(tmp_path):
    parent = "LIMIT = 1\n\n\nclass OldLayer(nn.Module):\n    def forward(self, x):\n        return x[:LIMIT]\n"
    found = lint(tmp_path, parent, "LIMIT = 2\n\n\nclass NewLayer(OldLayer):\n    pass\n")
    assert [(p.code, p.at.line) for p in found] == [("PG726", 5)]


def test_a_base_that_takes_anothers_place(tmp_path):
    parent = """
    class OldPreTrainedModel(nn.Module):
        pass


    class OldModel(OldPreTrainedModel):
        pass
    """
    child = """
    class NewTextPreTrainedModel(nn.Module):
        pass


    class NewModel(NewTextPreTrainedModel, OldModel):
        pass
    """
    assert "PG723" in codes(lint(tmp_path, parent, child, "OldModel"))


def test_a_merge_that_is_refused(tmp_path):
    child = """
    class NewLayer(OldLayer):
        __slots__ = call()
    """
    found = lint(tmp_path, LAYER, child)
    assert [p.code for p in found if "Python's rules would refuse it: PG" in p.what] == ["PG701"]
