"""What modular files may contain: the examples of `docs/language.md`, and every form in `forms/`.

The files of `forms/` have all forms close together; a comment says what a refused line is told to be.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import patchgen
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.language import check_class, check_code, check_file, check_statements
from patchgen.compiler.settings import Settings
from patchgen.syntax.blocks import index
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import read_source
from tests.pages import Block, read_page

PAGE = read_page(Path(__file__).parents[3] / "docs/language.md")
HEAD, *EXAMPLES = (block for block in PAGE.blocks if block.language == "python")
# Beside an example that declares no class of a model.
ANY_CLASS = """

class LlamaMLP(llama.LlamaMLP):
    limit = 7.0
"""
FORMS = Path(__file__).with_name("forms")
SHOWN, PART, FILE, CLASS = (
    (FORMS / f"{name}.txt").read_text(encoding="utf-8")
    for name in ("modular_llama_clamped", "ops", "refused_of_file", "refused_of_class")
)
FILES = sorted(
    path
    for pattern in ("modeling", "configuration")
    for path in Path(sys.prefix).glob(
        f"lib/python*/site-packages/transformers/models/*/{pattern}_*.py"
    )
)
SAMPLE = FILES[::60]


def convert(folder: Path, text: str) -> Flattened:
    """What the modular file `text` gives, beside `ops.py` of the forms."""
    package = folder / "toypack"
    package.mkdir()
    for name, content in {"__init__": "", "ops": PART, "modular_llama_clamped": text}.items():
        (package / f"{name}.py").write_text(content)
    environment = make_environment(folder, search=sys.path)
    return flatten(package / "modular_llama_clamped.py", environment, Settings())


def _convert_example(folder: Path, example: str) -> Flattened:
    text = HEAD.text + example
    declares_class = re.search(r"^class .*llama\.", example, re.MULTILINE)
    return convert(folder, text if declares_class else text + ANY_CLASS)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda block: f"line-{block.line}")
def test_an_example_of_the_page(tmp_path: Path, example: Block) -> None:
    result = _convert_example(tmp_path, example.text)
    if "refused" in example.words:
        assert {problem.code for problem in result.problems} == {"PG100"}
    else:
        assert not result.problems, "\n".join(map(str, result.problems))


def test_what_is_refused_stands_above_what_to_write_instead() -> None:
    words = [block.words for block in EXAMPLES]
    refused = [place for place, marks in enumerate(words) if "refused" in marks]
    assert len(refused) >= 15
    assert all(words[place + 1] == () for place in refused)


def test_the_message_of_the_page_is_what_is_printed(tmp_path: Path) -> None:
    example = next(block for block in EXAMPLES if "refused" in block.words)
    (problem,) = _convert_example(tmp_path, example.text).problems
    printed = str(problem).rpartition("/")[2]
    assert [block.text.rstrip() for block in PAGE.blocks if block.language == "text"] == [printed]


def test_the_allowed_forms_are_flattened(tmp_path: Path) -> None:
    result = convert(tmp_path, SHOWN)
    assert not result.problems, "\n".join(map(str, result.problems))
    texts = {file.name: file.text for file in result.files}
    modeling = texts["modeling_llama_clamped.py"]
    for form in (
        "def double",
        "clamp(self.act_fn",
        'LIMITS["up"] = LIMIT',
        "register_fake",
    ):
        assert form in modeling
    assert "extra_repr" not in modeling.split("class LlamaRMSNorm(")[1].split("\nclass ")[0]
    configuration = texts["configuration_llama_clamped.py"]
    assert "gate_limit: float = 7.0" in configuration
    assert '"layers.*.mlp.down_proj": "rowwise",\n        "norm": "rep",' in configuration


@pytest.mark.parametrize("text", [FILE, CLASS], ids=["file", "class"])
def test_each_line_is_refused_with_what_to_write_instead(tmp_path: Path, text: str) -> None:
    found: dict[int, list[str]] = {}
    for problem in convert(tmp_path, text).problems:
        assert problem.code == "PG100", problem
        found.setdefault(problem.at.line, []).append(problem.hint)
    said = {
        number: match[1].split("; ")
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := re.search(r"  # (.*)", line))
    }
    assert found.keys() == said.keys()
    for number, hints in said.items():
        for hint in hints:
            assert any(hint in each for each in found[number]), (number, hint, found[number])


PARTS_OF_FILES = {
    "if x: del x": "assign a value",
    "try: pass\nexcept Exception: del x": "assign a value",
    "try: pass\nfinally: x()": "assign a value",
    "def f(): pass\nif x: f()": "assign a value",
    "class A: pass\nA.size = 2": "assign a value",
    "class A: pass\nA.change()": "assign a value",
    "class A: pass\npatch(A)": "assign a value",
    "class A: pass\nsetattr(A, 'size', 2)": "assign a value",
    "class x: pass": "bind it once",
    "def f():\n    global f": "in an object that is changed",
    "def f():\n    global y": "in an object that is changed",
    "y = x\nfrom a import x": "bind it once",
    "del x": "assign a value",
    "x += 1": "assign a value",
    "assert x": "assign a value",
    "with x: pass": "assign a value",
    "while x: pass": "assign a value",
    "x()()": "assign a value",
    "def f(): return eval('x')": "name what is needed",
    "y = vars()": "name what is needed",
    "class A:\n    y = dir()": "name what is needed",
    "y = __doc__": "name what is needed",
    "class A:\n    y = 1\n\\\n    z = 2": "indent it by spaces",
    "class A:\n    def f(self): return self.__y": "one underscore",
    "def __dir__(): return []": "define or import",
}


@pytest.mark.parametrize("name", ["modular_toy", "ops"])
@pytest.mark.parametrize(("text", "hint"), PARTS_OF_FILES.items(), ids=PARTS_OF_FILES)
def test_a_form_that_no_file_may_have(tmp_path: Path, name: str, text: str, hint: str) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(f"x = 1\n{text}\n")
    module = index(read_source(path, f"toypack.{name}"))
    found = [*check_statements(module, lambda item: False), *check_code(module, lambda item: False)]
    assert hint in found[0][3], found


ALLOWED = (
    "def f():\n    global x\n    x = 2",
    "x = 2",
    "def x(): pass",
    "from a import x",
    "from a import y\nfrom b import y",
    "a, b = 1, 2",
    "if not x: import a\nelse: print(x)",
    "try: y = 1\nexcept Exception: y = 2\nfinally: z = 3",
    "if x:\n    if 1: y = 2\n    elif x > 2: y = 3",
    "class A: pass\nLAYERS.append(A)\nAutoModel.register(A, A, exist_ok=True)",
    "class A: pass\nA.register_for_auto_class()",
    "if __name__ == '__main__':\n    import b\n    for y in __file__: del y",
    "import a.b\nimport a.c",
    "import a\nimport a",
    "if not is_a_available(): raise ImportError",
    "try: import a\nexcept (ImportError, ModuleNotFoundError): a = None",
    "y = z = 2",
    "y: int",
    "def f(self, *, __k=1): return vars(self), dir(), __k",
    "def f(a): a.b.c = 2",
    "logger = logging.get_logger(__name__)",
    "y = '''\n\ttext\n'''",
    "\x0c\ny = 2",
    "y = (1 +\n     2)",
)


@pytest.mark.parametrize("text", ALLOWED)
def test_a_form_that_every_file_may_have(tmp_path: Path, text: str) -> None:
    path = tmp_path / "modular_toy.py"
    path.write_text(f"x = 1\n{text}\n")
    module = index(read_source(path, "toypack.modular_toy"))
    assert not [
        *check_statements(module, lambda item: False),
        *check_code(module, lambda item: False),
    ]


SHIPPED = sorted((Path(patchgen.__file__).parent / "parts").rglob("*.py"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_parts_of_patchgen_are_in_the_language(path: Path) -> None:
    assert not check_file(index(read_source(path, "patchgen.parts.x")), lambda item: False)


PARTS_OF_CLASSES = {
    "for x in y: z = x": "override the whole method",
    "with x: pass": "override the whole method",
    "try: x = 1\n    except E: pass": "override the whole method",
    "del x": "override the whole method",
    "import x": "override the whole method",
    "x[1] = 2": "override the whole method",
    "x.y: int = 2": "override the whole method",
    "x += 2": "override the whole method",
    "__doc__ = 'x'": "does without it",
    "__qualname__ = 'x'": "does without it",
    "__x = 2": "one underscore",
    "x = 1; x = 2": "keep one of them",
    "def f(self, x=(y := 2)): pass": "write the attribute out",
    "def f(self): return getattr(super(), 'f')": "call a method of it at once",
    "def f(self): self.parent = super": "call a method of it at once",
    "def f(self): return [__class__]": "type(self)",
    "def __init_subclass__(cls): pass": "does without it",
    "def __set_name__(self, owner, name): pass": "does without it",
    "def __class_getitem__(cls, item): pass": "does without it",
}


@pytest.mark.parametrize(("text", "hint"), PARTS_OF_CLASSES.items(), ids=PARTS_OF_CLASSES)
def test_a_form_that_no_parent_may_have(text: str, hint: str) -> None:
    found = check_class(f"class A(B):\n    {text}\n", "A", True)
    assert hint in found[0][3] and len({finding[3] for finding in found}) == 1, found


def test_what_a_parent_may_have() -> None:
    text = """@dataclass(frozen=True)
class A(B, c.C, Generic[T], metaclass=abc.ABCMeta):
    x: int
    x = y = 2
    '''Text.'''
    @overload
    def f(self): ...
    def f(self): return [super().f(x := 2) for _ in y]
    @property
    def z(self): ...
    @z.setter
    def z(self, value): self.__class__ = value
    ...
"""
    assert check_class(text, "A", True) == ()
    # A hook of the class itself is for those below it.
    assert check_class("class A(B):\n    def __init_subclass__(cls): ...\n", "A", False) == ()


UNUSUAL = {
    "PretrainedBartModel",
    "BartPretrainedModel",  # hooks that warn
    "Deimv2ForObjectDetection",  # a value, and a property of its name
    "GraniteFlashAttentionKwargs",  # a TypedDict
    "_LazyConfigMapping",
    "_LazyLoadAllMappings",  # subscripted bases
}


def _check_parents(path: Path) -> None:
    module = index(read_source(path, f"transformers.models.{path.parent.name}.{path.stem}"))
    found = [*check_statements(module, lambda item: False), *check_code(module, lambda item: False)]
    if path.parent.name != "auto":
        # Four `global`s, the hooks of two deprecated classes of Bart, LayoutLMv2's patch of
        # detectron2, and a field that Pocket TTS makes by a function of its file.
        unusual = ("global ", "__init_subclass__", "`detectron2.", "a call of mono ")
        assert [what for _, _, what, _ in found if not what.startswith(unusual)] == []
    for name in module.classes:
        block = module.definition(name)
        if block is not None and block.kind == "class" and name not in UNUSUAL:
            assert check_class(block.text, name, True) == (), name


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_the_files_of_transformers_are_in_the_language(path: Path) -> None:
    _check_parents(path)


@pytest.mark.slow
def test_every_file_of_transformers_is_in_the_language() -> None:
    for path in FILES:
        _check_parents(path)


def test_the_population_is_there() -> None:
    assert len(FILES) > 1_000 and len(SAMPLE) >= 15
