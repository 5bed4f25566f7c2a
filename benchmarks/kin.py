"""Compares merges of `patchgen rebase` with what people wrote, on models of transformers itself.

python benchmarks/kin.py OLD NEW [--show]

OLD and NEW are unpacked releases.  Many models are copies of another one with changes: Mistral of
Llama, mBART of BART.  So, under the name of the other model, such a copy is a fork of it in OLD,
and in NEW it is what people made of it while the other model changed, too.  The methods that
differ on both sides are merged by their three texts alone: nothing is declared or proved.  A method
that upstream gave up, and that the copy goes on to call, is kept as it is.  Prints a table with the
sums.  With --show, the merges that are not what people wrote are printed, too: they did more, or
something is wrong with the merge, so each has to be read.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rebase import SETTINGS, Method, changed_methods, release_in

from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import Release
from patchgen.author.align.file import File
from patchgen.author.rebase.callers import only_declaration_calls
from patchgen.author.rebase.cases import Case, Result
from patchgen.author.rebase.declared import Declared
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.rewriting import member_of
from patchgen.author.rebase.state import Outcome, State, Version, compare
from patchgen.project.markdown import table_lines
from patchgen.syntax.locate import make_environment
from patchgen.syntax.same import plain_text

# Each copy with the model that it was made from, as modules and as prefixes of classes.
KIN = """
    mistral Mistral llama Llama          gemma Gemma llama Llama
    olmo Olmo llama Llama                granite Granite llama Llama
    cohere Cohere llama Llama            helium Helium llama Llama
    stablelm StableLm llama Llama        phi3 Phi3 mistral Mistral
    starcoder2 Starcoder2 mistral Mistral    mixtral Mixtral mistral Mistral
    olmo2 Olmo2 olmo Olmo                gemma2 Gemma2 gemma Gemma
    phimoe Phimoe mixtral Mixtral        jamba Jamba mixtral Mixtral
    olmoe Olmoe mixtral Mixtral          qwen2_moe Qwen2Moe mixtral Mixtral
    persimmon Persimmon stablelm StableLm    deepseek_v2 DeepseekV2 deepseek_v3 DeepseekV3
    camembert Camembert roberta Roberta  xlm_roberta XLMRoberta roberta Roberta
    electra Electra bert Bert            mbart MBart bart Bart
    plbart PLBart bart Bart              pegasus Pegasus bart Bart
    wavlm WavLM wav2vec2 Wav2Vec2        hubert Hubert wav2vec2 Wav2Vec2
    dinov2 Dinov2 vit ViT                deit DeiT vit ViT
"""
HEADS = ("model", "made from", "changed on both sides", "merged", "as people did", "kept", "left")


def main() -> int:
    """Print a row for each model, and the sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    releases = [release_in(folder, parser) for folder in (options.old, options.new)]
    words = KIN.split()
    rows: list[tuple[str, ...]] = []
    sums: Counter[str] = Counter()
    for names in zip(words[::4], words[1::4], words[2::4], words[3::4], strict=True):
        counts = counts_of(names, releases, show=options.show)
        sums += counts
        rows.append(row_of(names[0], names[2], counts))
    print(*table_lines(HEADS, [*rows, row_of("all", "", sums)], numbers=HEADS[2:]), sep="\n")
    return 0


def row_of(model: str, parent: str, counts: Counter[str]) -> tuple[str, ...]:
    """A row of the table."""
    return model, parent, *(str(counts[name]) for name in HEADS[2:])


def counts_of(
    names: tuple[str, str, str, str], releases: list[Release], *, show: bool
) -> Counter[str]:
    """How many methods of a copy were merged, and how many of these as people did it."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        trees = [Tree(make_environment(Path(folder), one.root(), ())) for one in releases]
        fork, answer = (renamed(names, one, Path(folder)) for one in releases)
        methods = list(changed_methods(names[0], fork, trees, module_of(names[2])))
        cases = [case_of(method, fork, trees, module_of(names[2])) for method in methods]
        for method, case in zip(methods, cases, strict=True):
            text = merged_text(method, case)
            is_kept = not text and only_declaration_calls(case, cases, fork, (trees[0], trees[1]))
            if method.theirs is None and not is_kept:
                continue
            counts[HEADS[2]] += 1
            counts["merged" if text else "kept" if is_kept else "left"] += 1
            people = plain_people(method, answer)
            if text and plain_text(ast.parse(text).body[0]) == people:
                counts["as people did"] += 1
            elif text and show:
                print(method.fork, method.name, *differences(method, text), sep="\n")
            elif is_kept and show:
                print(method.fork, method.name, "kept", people == plain_text(method.ours))
    return counts


def module_of(model: str) -> str:
    """The module of a model."""
    return f"transformers.models.{model}.modeling_{model}"


def renamed(names: tuple[str, str, str, str], release: Release, folder: Path) -> File:
    """The file of a copy in a release, under the names of the model that it was made from."""
    copy, prefix, parent, parent_prefix = names
    path = release.root() / "transformers" / "models" / copy / f"modeling_{copy}.py"
    text = path.read_text(encoding="utf-8").replace(prefix, parent_prefix).replace(copy, parent)
    place = folder / f"{release.version}_{path.name}"
    place.write_text(text, encoding="utf-8")
    return read_fork(place, place.name, SETTINGS, generated=True)


def case_of(method: Method, fork: File, trees: list[Tree], module: str) -> Case:
    """A method as an override of a declaration, with its state by the three texts."""
    owner, _, member = method.name.rpartition(".")
    change = Declared(owner, member, "override", (method.ours,), module, owner)
    outcome = Outcome(State.GONE)
    if method.theirs is not None:
        versions = []
        for file in (trees[0].file(module), fork, trees[1].file(module)):
            found = member_of(file, owner, member) if file is not None else None
            assert file is not None and found is not None
            versions.append(Version(file, found))
        outcome = compare(*versions)
    return Case(change, Result(change, outcome.state), outcome)


def merged_text(method: Method, case: Case) -> str:
    """The merged method as a function, "" where it is left to a person."""
    outcome = case.outcome
    if outcome.state is State.ABSORBED and method.theirs is not None:
        return ast.unparse(method.theirs)
    if not outcome.text:
        return ""
    text = f"class _:\n{outcome.text}" if case.change.owner else outcome.text
    (node,) = ast.parse(text).body
    return ast.unparse(node.body[0] if isinstance(node, ast.ClassDef) else node)


def plain_people(method: Method, answer: File) -> str:
    """What people made of a method, "" where they removed it."""
    owner, _, member = method.name.rpartition(".")
    found = member_of(answer, owner, member)
    return plain_text(found.method) if found is not None and found.method is not None else ""


def differences(method: Method, text: str) -> list[str]:
    """What both sides changed, and what the merge changes in upstream's version."""
    assert method.theirs is not None
    old, ours, new = (ast.unparse(one) for one in (method.base, method.ours, method.theirs))
    pairs = {"declared": (old, ours), "upstream": (old, new), "merged": (new, text)}
    return [
        line
        for title, (one, other) in pairs.items()
        for line in difflib.unified_diff(
            one.split("\n"), other.split("\n"), title, title, lineterm="", n=2
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
