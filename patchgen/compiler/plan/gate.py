"""Refuse what is not in the language of modular files, before it is planned or carried.

    from .tables import SIZES       PG100 where nothing reads SIZES

`patchgen/compiler/language.py` looks at one file by itself; here its imports are followed too.
"""

from __future__ import annotations

from patchgen.compiler.language import check_file
from patchgen.compiler.plan.bindings import Bindings, is_part
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import kind_of_module
from patchgen.facts.modules import MODELS
from patchgen.syntax.blocks import Import, ModuleIndex
from patchgen.syntax.errors import Problem, Refusals
from patchgen.syntax.text import parse
from patchgen.syntax.trees import global_names


def check_language(index: ModuleIndex, bindings: Bindings) -> None:
    """Raise PG100 for what a file that is flattened has that is not in the language.

    transformers' own files are on the page as they are, and patchgen's parts by a test.
    """
    module = index.source.module
    scope = bindings.flatten_scope
    if module.startswith(f"{MODELS}.") or is_part(module) or not scope.flattens(module):
        return
    if module in bindings.checked:
        return

    def find(item: Import) -> Symbol:
        if not item.name and not item.level:
            return Symbol(item.module)
        at = index.source.at(item.line, item.column)
        return bindings.canonical(bindings.imported_symbol(index, item), at)

    def is_carried(item: Import) -> bool:
        module = find(item).module
        return scope.flattens(module) and bindings.env.path(module) is not None

    problems = [*check_file(index, is_carried)]
    read = set(index.exports or ()).union(*(block.uses for block in index.blocks))
    for block in index.blocks:
        if block.kind != "import":
            continue
        for item in block.imports:
            at = index.source.at(item.line, item.column)
            symbol = find(item)
            owner = symbol.module
            # An import may say which model is followed; what other modules do is not carried.
            is_helper = scope.is_own(owner) and kind_of_module(owner) is None
            if is_helper and item.bound not in read and is_carried(item):
                what = f"{item.bound} is imported, and nothing reads it"
                what += ": this is not in the language of modular files"
                problems.append(Problem(at, "PG100", what, "leave it out, or read what it defines"))
            # What an import takes is the value of that moment; the flat file has one variable.
            if scope.is_own(owner) and symbol.name and is_carried(item):
                source = bindings.env.index(owner, at).source
                if "global " in source.text and symbol.name in global_names(parse(source)):
                    what = f"{item.bound} is imported, and a function of {owner} sets it"
                    what += ": this is not in the language of modular files"
                    hint = f"import the module, and read {symbol.name} of it"
                    problems.append(Problem(at, "PG100", what, hint))
    if problems:
        raise Refusals(problems)
    bindings.checked.add(module)
