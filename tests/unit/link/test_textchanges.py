"""Words are replaced at byte columns, and every change is known again in characters."""

from patchgen.compiler.link.textchanges import (
    TextChange,
    apply_changes,
    find_end_of_name,
    find_words,
    rename_words,
)
from patchgen.compiler.plan.model import Edit


def test_columns_are_bytes_before_and_characters_after():
    line = 'name = "größe", MLP(x), MLP'
    first, second = (
        len(line[:place].encode()) for place in (line.index("MLP"), line.rindex("MLP"))
    )
    changes = {TextChange(1, first, first + 3, "TinyMLP"), TextChange(1, second, second + 3, "A")}
    text, edits = apply_changes([line, "untouched"], changes)
    assert text == 'name = "größe", TinyMLP(x), A\nuntouched'
    assert edits == (
        Edit(1, line.index("MLP"), "MLP", "TinyMLP"),
        Edit(1, line.rindex("MLP"), "MLP", "A"),
    )


def test_words_are_whole_and_stand_in_strings_or_comments():
    text = 'LlamaMLP = """a\nö LlamaMLP LlamaMLPs"""  # LlamaMLP, x.LlamaMLP\n'
    found = [(word.line, word.start, word.is_comment) for word in find_words(text, ["LlamaMLP"])]
    assert found == [(2, 3, False), (2, len('ö LlamaMLP LlamaMLPs"""  # '.encode()), True)]


def test_the_longest_name_is_renamed():
    renamed = {"Llama": "Tiny", "LlamaMLP": "TinyFeedForward"}
    assert rename_words("# LlamaMLP of Llama", renamed) == "# TinyFeedForward of Tiny"


def test_the_end_of_a_name_is_where_its_characters_end():
    assert find_end_of_name("größe = 1".encode(), 0) == len("größe".encode())
    assert find_end_of_name(b"(x)", 0) == 0
