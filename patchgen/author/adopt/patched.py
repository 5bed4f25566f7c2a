"""The fork that a patch stands for: the parent's file with what is assigned put in its place.

patch file                                parent                       fork
def rotate(x): ...                        def rotate(x): ...           rotate_patched
def forward(self, x):                                                  LlamaMLP.forward
    return rotate(silu(x))                silu is imported             silu

Each name means what it means to the patch: a helper that is called like another definition of the
parent gets another name.  What replaces a function or class stands beside it, and the code that
runs later reads that; what the module read while it was imported stays.  `find_patched` makes the
fork of the release that fits the patch best.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NoReturn

from patchgen import disk
from patchgen.author.adopt.forked import BUILTINS, pair_with_parent
from patchgen.author.adopt.parents import Candidate, find_file
from patchgen.author.adopt.patch_file import (
    Assignment,
    Defined,
    Imported,
    Literal,
    Patch,
    Unknown,
    is_of_transformers,
    read_patch,
)
from patchgen.author.adopt.releases import Release
from patchgen.author.align.file import (
    Cut,
    Definition,
    File,
    absolute_module,
    defined_names,
    of_lines,
    read_file,
    with_cuts,
)
from patchgen.author.resolve import Resolver, lacking_imports, resolver_of
from patchgen.compiler.settings import Settings
from patchgen.facts.decorators import FIELD_DECORATORS, RULES, Rule
from patchgen.formatting.format import format_texts
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_by
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.reads import Reference, is_private
from patchgen.syntax.same import plain_text
from patchgen.syntax.scopes import references
from patchgen.syntax.text import make_source, read_source
from patchgen.syntax.trees import Function

ANOTHER_RELEASE = "name the release that the patch was written for: --release X"
_BEFORE = "write the class or function anew, without what it was before the patch"


class PatchNames:
    """The names of one patch in the fork of `parent`, the file of `module` in the release."""

    def __init__(self, patch: Patch, parent: File, module: str, root: Path) -> None:
        self.patch = patch
        self.file = patch.file
        self.root = root
        self.parent = parent
        self.module = module
        self.notes: list[str] = []
        self.imports: dict[str, str] = {}

    def refuse(self, at: Location, what: str, hint: str) -> NoReturn:
        raise PatchgenError("PG810", at, what, hint)

    # What is assigned, and has an effect.

    @cached_property
    def assigned(self) -> dict[tuple[str, str], Assignment]:
        """The assignments by the name in the parent's module, and the attribute of that class."""
        effective = {}
        dead: list[tuple[Location, str]] = []
        for change in self.patch.assignments:
            module, names = _place(change, resolver_of(self.root))
            if module != self.module:
                continue
            text = ".".join(names)
            name, *attributes = names
            if len(names) > 2 or (attributes and name not in self.parent.classes):
                what = f"changes {text}, which is no class of {module} in this release"
                self.refuse(change.at, what, ANOTHER_RELEASE)
            attr = "".join(attributes)
            reason = self._no_effect(name, attr)
            if reason:
                dead.append((change.at, f"{text} has no effect: {reason}"))
                continue
            effective[name, attr] = change
            of_name = [key for key in effective if key[0] == name]
            if (name, "") in effective and len(of_name) > 1:
                self.refuse(change.at, f"changes the replaced {name}", _BEFORE)
        if dead and not effective:
            at, what = dead[0]
            self.refuse(at, what, ANOTHER_RELEASE)
        self.notes += [f"{at}: {what}" for at, what in dead]
        return effective

    def _no_effect(self, name: str, attr: str) -> str:
        """Why a change has no effect; "" if it may change something."""
        if attr:
            used = {*attributes(self.parent.tree, ast.Load, "")}
            used.update(attributes(self.file.tree, ast.Load, ""))
            has_it = attr in used or any(attr in owner.members for owner in self.lineage(name))
            if has_it or is_known_word(self.root, attr):
                return ""
            return f"{name} has no {attr}, and nothing calls it"
        reads = [read for read in self.parent.plain_reads if read.name == name]
        if name in attributes(self.file.tree, ast.Load, ""):
            return ""
        if not all(read.eager for read in reads):
            return ""
        when = " but while it is imported, before the patch" if reads else ""
        return f"nothing in the module reads {name}{when}"

    def lineage(self, name: str) -> list[Definition]:
        """A class of the parent and those of its bases that the file has."""
        definition = self.parent.definitions.get(name)
        if definition is None or not isinstance(definition.node, ast.ClassDef):
            return []
        lineage = [definition]
        for base in definition.node.bases:
            lineage.extend(self.lineage(ast.unparse(base)))
        return lineage

    def unset(self) -> Iterator[str]:
        """The attributes that methods read and the classes of this release do not set."""
        for (name, _), node in self.methods.items():
            known = {*attributes(node, ast.Store)}
            for owner_name, attr in self.assigned:
                if owner_name == name:
                    known.add(attr)
            for owner in self.lineage(name):
                known.update(owner.members)
                known.update(attributes(owner.node, ast.Store))
            at = self.file.source.at_node(node)
            for word in sorted({*attributes(node, ast.Load)} - known):
                if not is_known_word(self.root, word):
                    yield f"{at}: reads self.{word}, which {name} of this release does not set"

    # Which definitions of the patch file come along.

    @cached_property
    def methods(self) -> dict[tuple[str, str], Function]:
        """The functions that are assigned to classes."""
        methods = {}
        for (name, attr), change in self.assigned.items():
            match change.value:
                case Defined(node=ast.FunctionDef() | ast.AsyncFunctionDef() as node) if attr:
                    methods[name, attr] = node
        return methods

    @cached_property
    def pieces(self) -> dict[str, tuple[ast.stmt, ...]]:
        """The other definitions that are needed, by name."""
        waiting: list[str] = []
        for key, change in self.assigned.items():
            if key not in self.methods and isinstance(change.value, Defined):
                waiting.append(change.value.node.name)
        for method in self.methods.values():
            waiting += [read.name for read in reads_of([method])]
        needed = {}
        body = self.file.tree.body
        while waiting:
            name = waiting.pop()
            value = self.patch.scope.get(name)
            # Each file has a `__name__` of its own.
            if name in needed or value is None or name == "__name__":
                continue
            guard = self.file.guarded.get(name)
            path = value.path if isinstance(value, Imported) else ""
            is_import = name in self.file.imports or path.startswith(f"{self.module}.")
            if path and (is_import or guard is not None):
                continue
            if isinstance(value, Unknown) and name in self.patch.touched:
                at = self.file.source.at_node(self.patch.touched[name])
                self.refuse(at, f"may change {name}, which the patch reads", "make it a constant")
            nodes = tuple(node for node in body if name in defined_names(node) or node is guard)
            if nodes:
                needed[name] = nodes
                waiting += [read.name for read in reads_of(nodes)]
            elif not path:
                what = f"reads {name}, which is bound in a way that is not read"
                self.refuse(self.file.source.at_node(body[0]), what, "make it a constant")
        return needed

    # What each name is called in the fork.

    @cached_property
    def names(self) -> dict[str, str]:
        """What the pieces of the patch file are called in the fork."""
        taken = {n for n in self.pieces if self.parents_path(n) and not self._is_parents(n)}
        return {name: f"{name}_patched" if name in taken else name for name in self.pieces}

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The parent's names for which the code of the model reads another one."""
        return {name: self.text_of(new) for (name, attr), new in self.assigned.items() if not attr}

    def text_of(self, change: Assignment) -> str:
        """A value that is assigned, as code of the fork."""
        match change.value:
            case Imported(path) if path.startswith(f"{self.module}."):
                inner = path.removeprefix(f"{self.module}.")
                if "." in inner:
                    self.refuse(change.at, f"takes {inner} for another", _BEFORE)
                return inner
            case Imported(path):
                return self._imported(path.rpartition(".")[2], path)
            case Defined(node):
                return self.names[node.name]
            case Literal(value):
                return repr(value)

    def _is_parents(self, name: str, inside: tuple[str, ...] = ()) -> bool:
        """Whether the patch file means by a name what the parent means."""
        if name in inside:
            return True
        nodes = self.pieces.get(name)
        if nodes is None:
            path = self.parents_path(name)
            return not path or self.patch.scope.get(name) == Imported(path)
        theirs = self._parents_node(name)
        if theirs is None or len(nodes) > 1 or (name, "") in self.assigned:
            return False
        if plain_text(nodes[0]) != plain_text(theirs):
            return False
        return all(self._is_parents(read.name, (*inside, name)) for read in reads_of(nodes))

    def _parents_node(self, name: str) -> ast.stmt | None:
        there = self.parent.definitions.get(name)
        return there.node if there is not None else self.parent.guarded.get(name)

    def parents_path(self, name: str) -> str:
        """The dotted name of what the parent imports as `name`, or defines; "" without one."""
        if name not in self.parent.imports:
            return f"{self.module}.{name}" if self._parents_node(name) is not None else ""
        node, alias = self.parent.imports[name]
        if isinstance(node, ast.Import):
            return alias.name if alias.asname else name
        return f"{absolute_module(node, self.module)}.{alias.name}"

    def _of_parent(self, read: Reference) -> tuple[tuple[str, ...], int]:
        """The name in the parent's module that a read means, and how many attributes say so.

        `LlamaMLP` has none, and is what the parent defines; `modeling_llama.LlamaMLP` has one, and
        is what stands in the module by then.  A name of a member has less than none.
        """
        value = self.patch.scope.get(read.name)
        if not isinstance(value, Imported):
            return (), 0
        path = ".".join([value.path, *read.attributes])
        inside = path.removeprefix(f"{self.module}.")
        if inside == path:
            return (), 0
        names = tuple(inside.split("."))
        taken = len(read.attributes) - len(names) + 1
        return names, taken

    def name_of(self, read: Reference) -> tuple[str, int]:
        """What the fork calls a name of the patch, and how many attributes that takes in."""
        name = read.name
        value = self.patch.scope.get(name)
        at = self.at(read)
        names, taken = self._of_parent(read)
        if names:
            if not self.parents_path(names[0]):
                what = f"reads {names[0]}, which {self.module} of this release does not have"
                self.refuse(at, what, ANOTHER_RELEASE)
            # In the fork there is no other method than the new one.
            if taken < 0 or read.eager and names[:2] in self.assigned:
                self.refuse(at, f"keeps what {'.'.join(names)} was before the patch", _BEFORE)
            if taken and not read.eager:
                return self.renamed.get(names[0], names[0]), taken
            return names[0], taken
        if name in self.pieces:
            return self.names[name], 0
        if isinstance(value, Imported):
            return self._imported(name, value.path), 0
        if value is None and name not in BUILTINS:
            what = f"reads {name}, which nothing in this file binds"
            if not self.parents_path(name):
                self.refuse(at, what, "import it")
            if not any(f"{what};" in note for note in self.notes):
                self.notes.append(f"{at}: {what}; the model's file does")
        return name, 0

    def _imported(self, name: str, path: str) -> str:
        """The name of an import in the fork, which is written where the parent lacks it."""
        theirs = self.parents_path(name)
        # The package offers each name of its modules once.
        is_offered = path == f"transformers.{name}" and theirs.startswith("transformers.")
        if theirs == path or is_offered:
            return name
        called = f"{name}_patched" if theirs else name
        package, _, last = path.rpartition(".")
        statement = f"from {package} import {last}" if package else f"import {path}"
        if called != last:
            statement = f"{statement} as {called}"
        if called == path:
            # `import torch` and `import torch.utils.checkpoint` bind one name.
            aliases = []
            for node in self.file.tree.body:
                if isinstance(node, ast.Import):
                    aliases.extend(node.names)
            binding = [ast.Import([alias]) for alias in aliases if bound_by(alias) == name]
            statement = "\n".join(map(ast.unparse, binding)) or statement
        self.imports[called] = statement
        return called

    def at(self, read: Reference) -> Location:
        return self.file.source.at(read.line, read.column)


def reads_of(nodes: Iterable[ast.stmt]) -> tuple[Reference, ...]:
    return tuple(read for read in references(nodes) if not read.quoted)


def attributes(tree: ast.AST, use: type[ast.expr_context], owner: str = "self") -> Iterator[str]:
    """The attributes that code reads or sets; with an owner, those of `self` alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, use):
            if not owner or isinstance(node.value, ast.Name) and node.value.id == owner:
                yield node.attr


@lru_cache(maxsize=64)
def is_known_word(root: Path, word: str) -> bool:
    """Whether general modules of a release, or PyTorch's own protocol, name an attribute."""
    if word in ("forward", "training", "train", "eval") or word.startswith("__"):
        return True
    matches = re.compile(rf"\b{re.escape(word)}\b")
    folders = ("", "generation", "integrations", "loss", "utils", "quantizers")
    for folder in folders:
        for path in (root / "transformers" / folder).glob("*.py"):
            text = disk.read_bytes(path).decode(errors="replace")
            if matches.search(text):
                return True
    return False


Patched = tuple[Candidate, tuple[str, ...]]  # a model beside its parent, and notes


def find_patched(
    path: Path,
    display_path: str,
    apply: str | None,
    releases: Sequence[Release],
    model: str | None,
    settings: Settings,
) -> Patched | None:
    """What the patch in a file makes of its model, in the release that fits it best.

    None for a file that patches nothing.  Raises PatchgenError PG810 for what only the running
    program knows and for what no release has, and PG808 for a patch of several models.
    """
    patch = read_patch(path, display_path, apply)
    if patch is None:
        return None
    matches: list[Patched] = []
    errors: list[PatchgenError] = []
    for release in reversed(releases):
        try:
            matches.append(_patched(patch, release, model, settings))
        except PatchgenError as error:
            errors.append(error)
    if not matches:
        raise errors[0]
    candidate, notes = min(matches, key=lambda match: (len(match[1]), match[0].rank))
    return candidate, notes


def _patched(patch: Patch, release: Release, model: str | None, settings: Settings) -> Patched:
    root = release.root()
    at = Location(patch.file.source.path)
    resolver = resolver_of(root)
    patch = _with_homes(patch, resolver)
    modules, outside = _modules_of(patch, resolver)
    if model is not None:
        modules = [find_file(release, model)[0]]
    if len(modules) > 1:
        models = " and ".join(name.rpartition(".modeling_")[2] for name in modules)
        what = f"patches {models}: each is a file of its own"
        raise PatchgenError("PG808", at, what, "say which one with --parent")
    _check_imports(patch, root)
    [module] = modules
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    parent = read_file(read_source(path, module, "/".join(path.parts[-4:])))
    _check_star(patch, parent, module)
    fork = PatchNames(patch, parent, module, root)
    text = format_texts({"fork.py": _fork_text(fork)}, settings)["fork.py"]
    whole = _without_unused(parent, read_file(make_source(text, at.path)))
    forked = pair_with_parent(parent, whole, module, root=root)
    return Candidate(forked, release), (*outside, *fork.notes, *fork.unset())


def _modules_of(patch: Patch, resolver: Resolver) -> tuple[list[str], list[str]]:
    """The modeling files that the patch changes, and notes on what else it changes.

    `transformers.Trainer.create_optimizer = mine` beside a patch of a model stays where it is.
    """
    modules: set[str] = set()
    outside: list[Assignment] = []
    for change in patch.assignments:
        module, names = _place(change, resolver)
        if ".modeling_" in module:
            modules.add(module)
        else:
            outside.append(change)
        if ".modeling_" not in module and (not names or resolver.lacks(module, names[0])):
            what = f"changes {change.path}, which no modeling file has"
            raise PatchgenError("PG810", change.at, what, ANOTHER_RELEASE)
    if not modules:
        what = f"changes {outside[0].path}, which no modeling file has"
        raise PatchgenError("PG810", outside[0].at, what, ANOTHER_RELEASE)
    notes = [
        f"{change.at}: {change.path} stands outside of the model's file, and is left out"
        for change in outside
    ]
    return sorted(modules), notes


def _place(change: Assignment, resolver: Resolver) -> tuple[str, tuple[str, ...]]:
    """The module that an assignment changes, and the names in it.

    `modeling_llama.create_causal_mask = mine` changes modeling_llama, which only imports that.
    """
    owner, _, name = change.path.rpartition(".")
    if ".modeling_" in owner and resolver.locate(owner) == (owner, ()):
        return owner, (name,)
    return resolver.locate(change.path)


def _check_imports(patch: Patch, root: Path) -> None:
    """Refuse an import of what this release does not have."""
    for path in lacking_imports(patch.file, root):
        last = path.rpartition(".")[2]
        imports = patch.file.imports.values()
        node = next(node for node, alias in imports if alias.name == last)
        at = patch.file.source.at_node(node)
        what = f"imports {path}, which this release does not have"
        raise PatchgenError("PG810", at, what, ANOTHER_RELEASE)


def _check_star(patch: Patch, parent: File, module: str) -> None:
    """Refuse a name that `from MODULE import *` does not give in this release."""
    imports = patch.file.imports
    listed = parent.definitions.get("__all__")
    if listed is None or "*" not in imports:
        return
    star, _ = imports["*"]
    given = ast.unparse(listed.node)
    for name, value in patch.scope.items():
        is_of_star = name not in imports and value == Imported(f"{module}.{name}")
        if is_of_star and repr(name) not in given:
            at = patch.file.source.at_node(star)
            what = f"reads {name}, which `*` does not give here"
            raise PatchgenError("PG810", at, what, ANOTHER_RELEASE)


def _with_homes(patch: Patch, resolver: Resolver) -> Patch:
    """The patch with the modules that define a model where it says `transformers.LlamaMLP`."""

    def home(path: str) -> str:
        module, names = resolver.locate(path)
        return ".".join((module, *names)) if ".modeling_" in module else path

    def with_home(value: Any) -> Any:
        if is_of_transformers(value):
            return Imported(home(value.path))
        return value

    changes = []
    for change in patch.assignments:
        value = with_home(change.value)
        module, names = _place(change, resolver)
        path = ".".join((module, *names)) if ".modeling_" in module else change.path
        changes.append(replace(change, path=path, value=value))
    scope = ChainMap({name: with_home(value) for name, value in patch.scope.items()})
    return replace(patch, assignments=tuple(changes), scope=scope)


def _without_unused(parent: File, fork: File) -> File:
    """The patched model without what only replaced code called, as convert has it."""
    read_before = {read.name for read in parent.plain_reads} & parent.definitions.keys()
    while True:
        unread = read_before - {read.name for read in fork.plain_reads}
        cuts = []
        for name in unread & fork.definitions.keys():
            node = fork.definitions[name].node
            cuts.append(of_lines(first_line(node), node.end_lineno or 0, ()))
        if not cuts:
            return fork
        fork = read_file(make_source(with_cuts(fork.source.text, cuts), fork.source.path))


# The text of the fork.


def _fork_text(names: PatchNames) -> str:
    """The fork, not yet formatted."""
    parent = names.parent
    renamings: list[_Renaming] = []
    for read in parent.plain_reads:
        if not read.eager and read.name in names.renamed:
            renamings.append((read, (names.renamed[read.name], 0)))
    lines = _renamed(names, parent, renamings)
    for node in parent.tree.body:
        if isinstance(node, ast.ImportFrom) and node.level in (1, 2):
            # In a fork, this would be a module of its own package.
            begin = f"from {absolute_module(node, names.module)}"
            number = node.lineno - 1
            lines[number] = re.sub(r"^from\s+[.\w]+", begin, lines[number])
    for number, line in enumerate(lines):  # without the comments at the top
        if line and not line.startswith("#"):
            break
        lines[number] = ""
    edits: list[Cut] = []
    for (name, attr), change in names.assigned.items():
        if attr:
            edits += _edit_class(names, name, attr, change)
    edits.append(_added(names))
    header = itertools.takewhile(lambda line: line.startswith("#"), names.file.source.lines)
    return "".join([*header, "\n", with_cuts("\n".join([*lines, ""]), edits)])


# A name that is read, what it is called in the fork, and how many of its attributes that takes in.
_Renaming = tuple[Reference, tuple[str, int]]


def _renamed(names: PatchNames, file: File, renamings: Iterable[_Renaming]) -> list[str]:
    """The lines of a file with other names for what is read."""
    lines = [line.rstrip("\n").encode() for line in file.source.lines]
    # From the end, so that the columns before stay true.
    backwards = sorted(renamings, key=lambda renaming: renaming[0].position, reverse=True)
    for read, (called, taken) in backwards:
        name = read.name
        number = read.line - 1
        end_line = read.line
        end_column = read.column + len(name.encode())
        if taken:
            end_line, end_column = read.ends[taken - 1]
        is_renamed = called != name
        is_hidden = is_renamed and called in read.hidden
        if is_hidden or end_line != read.line:
            at = file.source.at(read.line, read.column)
            names.refuse(at, f"cannot become {called} on this line", "write it as one other name")
        if is_renamed or taken:
            line = lines[number]
            before = line[: read.column]
            behind = line[end_column:]
            lines[number] = before + called.encode() + behind
    return [line.decode() for line in lines]


def _edit_class(names: PatchNames, name: str, attr: str, new: Assignment) -> Iterator[Cut]:
    """Put a member into a class; what is put on instances, those of subclasses have as well."""
    definition = names.parent.definitions[name]
    for decorator in getattr(definition.node, "decorator_list", ()):
        word = ast.unparse(decorator).partition("(")[0].rpartition(".")[2]
        if word in FIELD_DECORATORS:
            names.refuse(new.at, f"changes {name}, whose fields are made before", "write a class")
        rule, *_ = RULES.get(word, (None,))
        if attr == "forward" and rule in (Rule.KERNEL, Rule.EXPERTS):
            names.notes.append(f"@{word} of {name} is left out: its forward is replaced")
            yield of_lines(decorator.lineno, decorator.end_lineno or 0, ())
    method = names.methods.get((name, attr))
    if method is not None:
        lines = _written(names, [method], attr, 4)
    else:
        lines = [f"    {attr} = {names.text_of(new)}"]
    if attr in definition.members:
        yield from _edits_of_member(definition, attr, lines)
    else:
        end = definition.node.end_lineno or 0
        yield of_lines(end + 1, end, ["", *lines])
    if not new.to_instances:
        return
    for other in names.parent.classes:
        below = names.parent.definitions[other]
        if other == name or attr not in below.members or (other, attr) in names.assigned:
            continue
        if definition in names.lineage(other):
            yield from _edits_of_member(below, attr, [])


def _edits_of_member(definition: Definition, attr: str, lines: list[str]) -> Iterator[Cut]:
    """Other lines for a member of a class, which may consist of several statements."""
    left = lines or ([] if len(definition.members) > 1 else ["    pass"])
    for node in definition.members[attr].nodes:
        yield of_lines(first_line(node), node.end_lineno or 0, left)
        left = []


def _added(names: PatchNames) -> Cut:
    """The imports and the pieces; in which order a fork defines them says nothing."""
    definitions = names.parent.definitions.values()
    start = min(first_line(definition.nodes[0]) for definition in definitions)
    lines: list[str] = []
    written: set[ast.AST] = set()
    pieces = sorted(names.pieces.items(), key=lambda piece: piece[1][0].lineno)
    for name, nodes in pieces:
        called = names.names[name]
        if written.isdisjoint(nodes) and not names.parents_path(called):
            lines.append("")
            lines += _written(names, nodes, called, 0)
            lines.append("")
            written.update(nodes)
    imports = "\n".join(names.imports.values())  # with what the pieces need
    return of_lines(start, start - 1, [imports, *lines])


def _written(names: PatchNames, nodes: Sequence[ast.stmt], name: str, indent: int) -> list[str]:
    """The lines of a piece in the names of the fork, `name` being what it is called there."""
    file = names.file
    written = []
    lines = _renamed(names, file, [(read, names.name_of(read)) for read in reads_of(nodes)])
    for node in nodes:
        _check(names, node, indent)
        bound = {*defined_names(node)}
        for guarded, statement in file.guarded.items():
            if statement is node:
                bound.add(guarded)
        if name not in bound:
            if not isinstance(node, Function | ast.ClassDef | ast.Assign | ast.AnnAssign):
                what = f"binds what the model's file calls {name.removesuffix('_patched')}"
                names.refuse(file.source.at_node(node), what, "give it another name")
            pattern = r"^(class\s+|(?:async\s+)?def\s+|)\w+"
            at = node.lineno - 1
            lines[at] = re.sub(pattern, rf"\g<1>{name}", lines[at], count=1)
        first = first_line(node)
        last = node.end_lineno or 0
        while first > 2 and lines[first - 2].startswith("#"):
            first -= 1
        for number in range(first, last + 1):
            line = lines[number - 1]
            is_indented = line and number not in file.inside_strings
            written.append(" " * indent + line if is_indented else line)
    return written


def _check(names: PatchNames, node: ast.stmt, indent: int) -> None:
    """Refuse what would mean another thing in the model's file."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(attr=attr) if indent and is_private(attr):
                what = f"reads {attr}, which is another name in a class"
            case ast.Global(names=listed) if any(names.names.get(n) != n for n in listed):
                what = f"changes {', '.join(listed)} while the model runs"
            case ast.ImportFrom(module=module) if module == names.module:
                what = "imports from the patched module while the model runs"
            case _:
                continue
        names.refuse(names.file.source.at_node(inner), what, "change that line")
