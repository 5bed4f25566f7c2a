"""Every line of every output is linked, and the links lead to where the line comes from."""

from __future__ import annotations

import re

import pytest

from patchgen.compiler.plan.model import Lines
from patchgen.pages.links import Sources, link_lines
from patchgen.pages.outline import read_outline
from patchgen.pages.trace import Variant
from tests.toytree import REPOSITORY
from tests.unit.page.variants import MODULARS, QUICK, name_of, traced

# What the converter writes itself.
MADE = re.compile(
    r"#|__all__ = |from \.configuration|_\w+Parent = "
    r"|    @classmethod$|    def is_custom_code\(|        (# For code outside|# `_init_weights`|return False)"
    # The decorator that names the model in docstrings.
    r"|import contextlib$|def auto_docstring\(|    with contextlib|    text = |        \.replace\(|    \)$"
    r"|    .*\bdocumented\b|    \"{3}transformers' decorator"
    # A model with experts joins their weights when a checkpoint is loaded.
    r"|from transformers\.conversion_mapping|register_checkpoint_conversion_mapping\("
    r"|    .*get_checkpoint_conversion_mapping\(|\)$"
)
IMPORT = re.compile(r"from |import |    \w+,$|\)$")
GALLERY = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in map(name_of, MODULARS)
]


@pytest.mark.parametrize("name", GALLERY)
def test_every_line_is_linked_or_made_by_the_converter(name: str) -> None:
    variant = traced(name)
    for output in variant.outputs:
        lines = output.file.text.split("\n")[:-1]
        assert len(output.links) == len(lines) == sum(output.counts.values())
        for line, link in zip(lines, output.links, strict=True):
            assert (link.kind == "blank") == (not line.strip())
            assert link.sources or link.kind in ("made", "blank"), line
            if link.kind == "made":
                assert MADE.match(line), line
            for source in link.sources:
                there = variant.texts[source.path].split("\n")
                assert 1 <= source.first <= source.last < len(there), source


@pytest.mark.parametrize("name", GALLERY)
def test_lines_of_the_parent_say_what_the_parent_says(name: str) -> None:
    variant = traced(name)
    equal, other = _compare(variant, "parent")
    # New names, absolute imports and line breaks are all that a line of a parent can differ by.
    assert len(other) <= 0.2 * equal, other[:20]


@pytest.mark.parametrize("name", GALLERY)
def test_links_agree_with_the_diff_that_reviewers_read(name: str) -> None:
    """What the checked-in diff adds is not called the parent's; what it keeps mostly is."""
    for output in traced(name).outputs:
        if output.file.diff_base is None:
            continue
        stem = output.file.name.removesuffix(".py")
        (diff,) = (REPOSITORY / "generated").glob(f"*/{stem}.diff")
        changes = diff.read_text(encoding="utf-8")
        new = _added_lines(changes)
        moved = {line[1:].strip() for line in changes.split("\n") if line.startswith("-")}
        lines = output.file.text.split("\n")
        own = [
            n for n, link in enumerate(output.links, 1) if link.kind in ("declaration", "rewritten")
        ]
        # A name may be imported anew, a call with one more argument is broken into lines, and a
        # block may be indented.
        wrong = [n for n in new if output.links[n - 1].kind == "parent"]
        wrong = [n for n in wrong if not IMPORT.match(lines[n - 1])]
        wrong = [n for n in wrong if lines[n - 1].strip() not in moved]
        assert len(wrong) <= 0.01 * len(lines), wrong
        assert len(set(own) - new) <= 0.05 * len(lines)


def _compare(variant: Variant, kind: str) -> tuple[int, list[tuple[str, str]]]:
    """How many lines of `kind` are equal to their source but for indentation, and the others."""
    equal, other = 0, []
    for output in variant.outputs:
        lines = output.file.text.split("\n")
        for line, link in zip(lines, output.links, strict=False):
            for source in link.sources if link.kind == kind else ():
                there = variant.texts[source.path].split("\n")[source.first - 1]
                if there.strip() == line.strip():
                    equal += 1
                else:
                    other.append((line, there))
    return equal, other


def _added_lines(diff: str) -> set[int]:
    """The numbers of the lines that a unified diff adds."""
    added, number = set(), 0
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            number = int(line.split("+")[1].split(",")[0].split(" ")[0])
        elif line.startswith("+"):
            added.add(number)
            number += 1
        elif line.startswith(" "):
            number += 1
    return added


def test_an_edit_says_what_it_matched() -> None:
    variant = traced("mpnet_sdpa_checkpoint")
    other, one, _ = variant.edits
    assert [_text(variant, lines) for lines in one.found] == ["        super().__init__()"]
    (found,) = (_text(variant, lines) for lines in other.found)
    assert found.startswith("        attention_scores = torch.matmul(q, k.transpose(-1, -2))")
    assert found.endswith("        c = c.permute(0, 2, 1, 3).contiguous()")
    assert _text(variant, other.declared).lstrip().startswith('@edit("forward")')


def _text(variant: Variant, lines: Lines) -> str:
    return "\n".join(variant.texts[lines.path].split("\n")[lines.first - 1 : lines.last])


def test_changes_lead_to_edits_and_to_what_they_replace() -> None:
    variant = traced("mpnet_sdpa_checkpoint")
    (output,) = variant.outputs
    found = {edit.name: change for change in output.changes for edit in change.edits}
    assert set(found) == {"know_the_config", "call_the_interface", "add_the_bias_once"}
    change = found["call_the_interface"]
    assert change.title == "MPNetSelfAttention.forward"
    assert {source.path for source in change.sources} == set(variant.texts)


def test_names_that_are_imported_are_found_however_they_are_spelled() -> None:
    flat = read_outline("from transformers.activations import ACT2FN\n")
    parent = read_outline("from ...activations import (\n    ACT2CLS,\n    ACT2FN,\n)\n")
    ((name,),) = flat.says.values()
    assert parent.by_owner["", name] == 3


def test_a_line_that_any_class_may_have_is_not_taken_from_another() -> None:
    other = read_outline("class B:\n    def f(self):\n        return 1\n")
    assert other.by_owner["B.f", "return 1"] == 3
    assert other.by_text == {}


def test_nothing_is_linked_where_nothing_is_alike() -> None:
    (output,) = traced("mpnet_sdpa_checkpoint").outputs
    bare = type(output.file)(kind="modeling", name="x.py", text="# made\n\ny = 1\n")
    links = link_lines(bare, Sources({"p.py": "z = 2\n"}, frozenset({"p.py"})), (), {})
    assert [link.kind for link in links] == ["made", "blank", "made"]
