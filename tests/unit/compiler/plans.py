"""Class plans from plain text, a small stand-in for indexing, planning and renaming.

A golden file has sections: `bases` (kept), `parent` (merged) and `modular` (the declaration, whose
last class is the flat one), then `flat` or `error`.  `probe` is run by Python over the classes as
declared and over the flat one.  A modular file says `parent.Name` or plain `Name`; every class of
both is merged.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

from patchgen.compiler.merge.merge import merge_class
from patchgen.compiler.plan.model import ClassPlan, Edit, RewrittenBlock, Symbol
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.syntax.text import make_source

MARK = "# --- "
WORDS = ("edit", "old", "new", "before", "after", "Hole", "New", "Old")


@dataclass(frozen=True)
class Golden:
    path: Path
    sections: dict[str, str]

    def __getattr__(self, name: str) -> str:
        return self.sections.get(name, "")


def read_golden(path: Path) -> Golden:
    sections: dict[str, str] = {}
    name = "reason"
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith(MARK):
            name = line.removeprefix(MARK).strip()
            sections[name] = ""
        else:
            sections[name] = sections.get(name, "") + line
    return Golden(path, sections)


def write_golden(golden: Golden, outcome: tuple[str, str]) -> None:
    sections = {
        name: text for name, text in golden.sections.items() if name not in ("flat", "error")
    }
    order = [name for name in sections if name != "probe"]
    tail = [name for name in sections if name == "probe"]
    sections[outcome[0]] = outcome[1]
    parts = [
        ("" if n == "reason" else f"{MARK}{n}\n") + sections[n] for n in [*order, outcome[0], *tail]
    ]
    golden.path.write_text("".join(part if part.endswith("\n") else f"{part}\n" for part in parts))


def outcome_of(golden: Golden) -> tuple[str, str]:
    """("flat", text) or ("error", commented lines)."""
    try:
        merged = merge_class(plan_of(golden))
    except PatchgenError as error:
        lines = "\n".join(str(problem) for problem in problems_of(error)).split("\n")
        return "error", "".join(f"# {line}".rstrip() + "\n" for line in lines)
    notes = "".join(f"# note: {note}\n" for note in merged.notes)
    return "flat", merged.text + notes


def plan_of(golden: Golden) -> ClassPlan:
    parents, declared, kept = (
        classes_of(text) for text in (golden.parent, golden.modular, golden.bases)
    )
    name = list(declared)[-1]
    modules = {"parent": parents, "modular": declared, "bases": kept}
    mro = linearise(("modular", name), modules)
    chain = [key for key in mro if key[0] in ("parent", "modular")]
    # What follows the first kept base stays behind it.
    first_kept = next((i for i, key in enumerate(mro) if key[0] == "bases"), len(mro))
    assert mro[: len(chain)] == chain or first_kept >= len(chain), (
        "the chain is a prefix of the MRO"
    )
    outside = [key[1] for key in mro if key not in chain]
    inherited = {base for n in kept for base in bases_of(kept[n])}
    bases = tuple(base for base in outside if base not in inherited)
    texts = {"parent": golden.parent, "modular": golden.modular}
    rewritten = tuple(
        rewrite_block(
            texts[module],
            module,
            {"parent": parents, "modular": declared}[module][cls],
            chain,
            name,
        )
        for module, cls in chain
    )
    own_names = tuple(cls for _, cls in chain)
    searches = tuple(search_of(linearise(key, modules), chain, modules) for key in chain)
    return ClassPlan(name, rewritten, bases, own_names, searches)


def search_of(mro, chain, modules):
    inside = tuple(chain.index(key) for key in mro if key in chain)
    behind = mro[len(inside) :]
    if not behind:
        return inside, "object"
    return inside, behind[0][1] if linearise(behind[0], modules) == behind else None


def classes_of(text: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


def bases_of(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in node.bases]


def linearise(
    key: tuple[str, str], modules: dict[str, dict[str, ast.ClassDef]]
) -> list[tuple[str, str]]:
    """C3, for classes that are named by (module, name); what is defined nowhere is outside."""
    if key[1] not in modules.get(key[0], {}):
        return [key]
    bases = [resolve(base, key[0], modules, key[1]) for base in bases_of(modules[key[0]][key[1]])]
    lists = [*(linearise(base, modules) for base in bases), bases]
    done = [key]
    while lists := [rest for rest in lists if rest]:
        head = next(one[0] for one in lists if not any(one[0] in other[1:] for other in lists))
        done.append(head)
        lists = [[k for k in rest if k != head] for rest in lists]
    return done


def resolve(
    base: str, module: str, modules: dict[str, dict[str, ast.ClassDef]], own: str
) -> tuple[str, str]:
    name = base.removeprefix("parent.")
    if module == "modular" and base == name and name in modules["modular"] and name != own:
        return "modular", name
    if name in modules["parent"] and (base != name or name != own or module == "parent"):
        return "parent", name
    return "bases", name


def rewrite_block(
    text: str, module: str, node: ast.ClassDef, chain: list[tuple[str, str]], name: str
) -> RewrittenBlock:
    """The class as a block in the names of the flat file.

    `parent.Name` becomes `Name` or `__parent_<index>__`.
    """
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    edits = []
    inside_super = {
        id(call.args[0])
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "super"
        and call.args
    }
    holders = {id(outer.value) for outer in ast.walk(node) if isinstance(outer, ast.Attribute)}
    for child in ast.walk(node):
        target = child.value if isinstance(child, ast.Attribute) else None
        if isinstance(target, ast.Name) and target.id == "parent":
            own, old = child.attr, f"parent.{child.attr}"
        elif (
            isinstance(child, ast.Name)
            and module == "modular"
            and id(child) in inside_super | holders
        ):
            own = old = child.id
        else:
            continue
        place = chain.index(("parent", own)) if ("parent", own) in chain else 0
        explicit = place > chain.index((module, node.name)) and id(child) in inside_super | holders
        new = f"__parent_{place}__" if explicit else own
        if new != old:
            edits.append(Edit(child.lineno - first + 1, child.col_offset, old, new))
    block = "".join(lines[first - 1 : node.end_lineno]).split("\n")
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        line = block[edit.line - 1]
        block[edit.line - 1] = line[: edit.column] + edit.new + line[edit.column + len(edit.old) :]
    text_out = "\n".join(block)
    needs = {word: Symbol("patchgen.edits", word) for word in WORDS} | imports(text)
    source = make_source(text, f"{module}.py", module)
    ordered = tuple(sorted(edits, key=lambda e: (e.line, e.column)))
    symbol = Symbol(module, node.name)
    return RewrittenBlock(
        symbol, "class", node.name, "", text_out, source, first, (node.name,), needs, ordered
    )


def imports(text: str) -> dict[str, Symbol]:
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            found |= {
                alias.asname or alias.name: imported(node.module or "", alias.name)
                for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: Symbol(alias.name) for alias in node.names}
    return found


def imported(module: str, name: str) -> Symbol:
    return (
        Symbol("patchgen.edits")
        if (module, name) == ("patchgen", "edits")
        else Symbol(module, name)
    )
