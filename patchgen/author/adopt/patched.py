"""The fork that a patch stands for: the parent's file with what is assigned put in its place.

patch file                                fork
def forward(self, x):                     class LlamaMLP(nn.Module):
    return helper(x)                          def forward(self, x):
LlamaMLP.forward = forward                        return helper(x)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchgen.author.adopt.patch_names import (
    ANOTHER_RELEASE,
    PatchNames,
    Piece,
    absolute_module,
    plain_texts,
)
from patchgen.author.adopt.patch_values import Assignment
from patchgen.author.align.file import Definition, File, defined_names
from patchgen.facts.decorators import FIELD_DECORATORS
from patchgen.syntax.blocks import first_line
from patchgen.syntax.reads import Reference, is_private
from patchgen.syntax.same import Function

_Edit = tuple[int, int, list[str]]  # the lines from the first to the last, and what they become


class PatchedFile(PatchNames):
    """Puts the assignments into the lines of the parent's file."""

    def text(self) -> str:
        """The fork, not yet formatted; what prevents it is in `problems`."""
        self._check_imports()
        for at, what in () if self.assigned else self.dead:
            self._problem(at, what, ANOTHER_RELEASE)
        if self.problems:
            return ""
        for (name, attr), one in self.assigned.items():
            if not attr and name not in self.in_place:
                self.renamed[name] = self._name_of_value(name, one)
        lines = self._parents_lines()
        edits = [edit for key, one in self.assigned.items() for edit in self._edit_class(*key, one)]
        edits += self._added(len(lines))
        for first, last, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            lines[first - 1 : last] = text
        return "\n".join([*_header(self.patch.file), *lines]) + "\n"

    def _parents_lines(self) -> list[str]:
        """The parent's lines without its header, whose code reads what the patch put in."""
        raw = [line.rstrip("\n").encode() for line in self.parent.source.lines]
        for node in self.parent.tree.body:
            if isinstance(node, ast.ImportFrom) and node.level in (1, 2):
                # In a fork, this would be a module of its own package.
                begin = f"from {absolute_module(node, self.module)}".encode()
                raw[node.lineno - 1] = re.sub(rb"^from\s+[.\w]+", begin, raw[node.lineno - 1])
        late = [one for one in self.parent.plain_reads if not one.eager]
        for read in sorted(late, key=lambda one: one.position, reverse=True):
            if read.name in self.renamed:
                self._write(raw, read, self.renamed[read.name], 0, self.parent)
        for number, line in enumerate(raw):
            if line.strip() and not line.startswith(b"#"):
                break
            raw[number] = b""
        return [line.decode() for line in raw]

    def _write(
        self, raw: list[bytes], read: Reference, called: str, taken: int, file: File
    ) -> None:
        """Write another name where one is read."""
        line, end = raw[read.line - 1], (read.line, read.column + len(read.name.encode()))
        is_there = line[read.column :].startswith(read.name.encode())
        end = read.ends[taken - 1] if taken else end
        if end[0] != read.line or not is_there:
            at = file.source.at(read.line, read.column)
            self._problem(at, f"reads {read.name} on several lines", "write it on one line")
            return
        raw[read.line - 1] = line[: read.column] + called.encode() + line[end[1] :]

    def _edit_class(self, name: str, attr: str, one: Assignment) -> Iterator[_Edit]:
        """Put a member into a class; what is put on instances, those of subclasses have as well."""
        if not attr:
            return
        definition, piece = self.parent.definitions[name], self.methods.get((name, attr))
        decorators = plain_texts(getattr(definition.node, "decorator_list", ()))
        if any(f"N:{one};" in text for one in FIELD_DECORATORS for text in decorators):
            self._problem(one.at, f"changes {name}, whose fields are made before", "write a class")
        text = (
            self._written(piece, attr, 4)
            if piece is not None
            else [f"    {attr} = {self._name_of_value(f'{name}.{attr}', one)}"]
        )
        end = definition.node.end_lineno or 0
        if attr in definition.members:
            yield from _edits_of_member(definition, attr, text)
        else:
            yield end + 1, end, ["", *text]
        for other in self.parent.classes:
            below = self.parent.definitions[other]
            if other == name or definition not in self._lineage(other):
                continue
            if one.reach == "exactly" and attr not in below.members:
                what = f"replaces {attr} for {name} and not for {other}, which inherits it"
                self._problem(one.at, what, "assign to the class")
            is_new = (other, attr) in self.assigned
            if one.reach == "instances" and attr in below.members and not is_new:
                yield from _edits_of_member(below, attr, [])

    def _added(self, end: int) -> Iterator[_Edit]:
        """The imports and the pieces, which stand last if they need a class of the parent."""
        starts = [first_line(one.nodes[0]) for one in self.parent.definitions.values()]
        top: list[str] = []
        bottom: list[str] = []
        last: set[str] = set()
        written: set[ast.AST] = set()
        for name, piece in sorted(self.pieces.items(), key=lambda item: item[1].nodes[0].lineno):
            target = self.names[name]
            if written & set(piece.nodes) or self._path(target) and target not in self.in_place:
                continue
            written |= set(piece.nodes)
            lines = self._written(piece, target, 0)
            if target in self.in_place:
                node = self.parent.definitions[target].node
                yield first_line(node), node.end_lineno or 0, lines
                continue
            called = {self._name_of(one, piece)[0] for one in piece.reads if one.eager}
            if called & {*self.parent.definitions, *last}:
                last.add(target)
            (bottom if target in last else top).extend(["", *lines, ""])
        imports = [line for text in self.imports.values() for line in text.split("\n")]
        yield min(starts, default=1), min(starts, default=1) - 1, [*imports, *top]
        yield end + 1, end, bottom

    def _written(self, piece: Piece, name: str, indent: int) -> list[str]:
        """The lines of a piece in the names of the fork, `name` being what it is called there."""
        file = self.patch.file
        raw = [line.rstrip("\n").encode() for line in file.source.lines]
        for read in sorted(piece.reads, key=lambda one: one.position, reverse=True):
            called, taken = self._name_of(read, piece)
            if called != read.name or taken:
                self._write(raw, read, called, taken, file)
        found: list[str] = []
        for node in piece.nodes:
            self._check(node, piece, name, indent)
            for handler in node.handlers if isinstance(node, ast.Try) else ():
                if all(isinstance(one, ast.Expr) for one in handler.body):
                    # It says that a package is missing, which the first use of it says as well.
                    start, end = handler.body[0], handler.body[-1].end_lineno or 0
                    raw[start.lineno - 1] = b" " * start.col_offset + b"pass"
                    raw[start.lineno : end] = [b""] * (end - start.lineno)
            own = getattr(node, "name", "")
            if own and own != name:
                line, begin = raw[node.lineno - 1], node.col_offset
                rest = re.sub(
                    rb"(class|def)(\s+)\w+", rb"\1\2" + name.encode(), line[begin:], count=1
                )
                raw[node.lineno - 1] = line[:begin] + rest
            elif not own and name not in {*defined_names(node), *file.guarded}:
                rest = re.sub(rb"^\w+", name.encode(), raw[node.lineno - 1])
                raw[node.lineno - 1] = rest
            first, last = first_line(node), node.end_lineno or 0
            while first > 2 and raw[first - 2].lstrip().startswith(b"#"):
                first -= 1
            for number in range(first, last + 1):
                text = raw[number - 1].decode()
                if number not in file.inside_strings:
                    margin = min(node.col_offset, len(text) - len(text.lstrip()))
                    text = (" " * indent + text[margin:]).rstrip()
                found.append(text)
        return found

    def _check(self, node: ast.stmt, piece: Piece, name: str, indent: int) -> None:
        """Refuse what would mean another thing in the model's file."""
        names = {own for own, other in self.names.items() if own != other}
        is_renamed = name not in {*defined_names(node), *self.patch.file.guarded} and not indent
        if is_renamed and not isinstance(
            node, Function | ast.ClassDef | ast.Assign | ast.AnnAssign
        ):
            at = self.patch.file.source.at_node(node)
            self._problem(at, f"binds what the model's file calls {name}", "give it another name")
        for inner in ast.walk(node):
            what = ""
            match inner:
                case ast.Attribute(attr=attr) if indent and is_private(attr):
                    what = f"reads {attr}, which is another name in a class"
                case ast.Global(names=listed) if names & {*listed}:
                    what = f"changes {', '.join(listed)}, of which the model's file has another"
                case ast.ImportFrom(module=module) if module == self.module:
                    what = "imports from the patched module while the model runs"
            if what and isinstance(inner, ast.expr | ast.stmt):
                self._problem(self.patch.file.source.at_node(inner), what, "change that line")


def _edits_of_member(definition: Definition, attr: str, text: list[str]) -> Iterator[_Edit]:
    """Another text for a member of a class, which may consist of several statements."""
    nodes = definition.members[attr].nodes
    others = [one for one in definition.members.values() if one.name != attr]
    for number, node in enumerate(nodes):
        left = [] if number else text or ([] if others else ["    pass"])
        yield first_line(node), node.end_lineno or 0, left


def _header(file: File) -> list[str]:
    """The comments at the top of a file."""
    lines = [line.rstrip("\n") for line in file.source.lines]
    end = next((n for n, line in enumerate(lines) if line and not line.startswith("#")), 0)
    return lines[:end]
