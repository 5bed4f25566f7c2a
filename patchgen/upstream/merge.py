"""Merge a modular class with the class of another model that it derives from, as transformers does.

    child       class ZnewMLP(ZparMLP):             merged      class ZnewMLP(nn.Module):
                    scale = 2                                       size = 1
    parent      class ZnewMLP(nn.Module):                           scale = 2
                    size = 1

In: the text of both classes, the parent's already renamed.  Out: the text of one class without
inheritance between them, and its bases.  Text is cut at the positions of `ast`; no tree outlives
the call.  Layout is left to ruff.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen.facts.modules import CHECKPOINTED
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.upstream.members import Member, Members, Method, cut_class, cut_method, docstring_of
from patchgen.upstream.names import common_suffix
from patchgen.upstream.supers import Tables, merge_body, parents_called
from patchgen.upstream.tokens import Item, items, joined

At = Callable[[int, int], Location]
_REMOVED = re.compile(r"    [^=:]+ = AttributeError\(")
# `def forward(self): raise AttributeError()` below a blank line asks for the removal of the
# parent's.  Only the text decides: directly under the `class` line it is an ordinary method
# (deepseek_vl), and a comment on the `def` line changes nothing (embedding_gemma2).
_RAISING = re.compile(r"    def [^\n]*\n        raise \w*Error\(")
_SUPER_KWARGS = "super_kwargs"
_NO_INHERIT = "@no_inherit_decorator"
_PARAMETER = re.compile(r"\**\s*([^\W\d]\w*)?")
_KEYWORD = re.compile(r"(?:[^\W\d]\w*\s*=(?!=))|\*\*")
_BARE = re.compile(r"[^\W\d]\w*\Z")


@dataclass(frozen=True, slots=True)
class ClassText:
    """A class statement as text.

    `leading` is the comment lines directly above it (no blank lines), `text` runs from the first
    decorator to the last line of the body, at column 0, with its final newline.
    """

    name: str
    leading: str
    text: str


def merge_class(
    child: ClassText,
    parent: ClassText,
    model_base: str,
    docs: Callable[[str], str] | None,
    at: At,
) -> tuple[str, tuple[str, ...]]:
    """The text of the merged class, to be formatted, and its bases.

    `model_base` is the base of `child` that `parent` stands for, `docs` a renaming of the parent's
    strings and comments.  `at` maps a line and a byte column of the child's text to a place.
    Raises PatchgenError PG620 to PG622.
    """
    leading = parent.leading
    text = parent.text
    # The parent's code has its new names already; its documentation depends on the class.
    if docs:
        leading, text = docs(leading), docs(text)
    declared = cut_class(child.text)
    inherited = cut_class(text)
    arguments = _merged_arguments(declared.arguments, inherited.arguments, model_base)
    bases = _bases_of(arguments)
    decorators = _merged_decorators(declared.decorators, inherited.decorators, at, (1, 0))
    body = [
        docstring.whole if (docstring := declared.docstring or inherited.docstring) else "",
        *(attribute.whole for attribute in _merged_attributes(declared, inherited, at)),
        *_merged_methods(declared, inherited, bases, at),
    ]
    brackets = f"({joined(arguments)})" if arguments else ""
    # A class may lose all that it had.
    text = "".join(body) or "    pass\n"
    return f"{leading}{decorators}class {child.name}{brackets}:\n{text}", bases


def _merged_attributes(declared: Members, inherited: Members, at: At) -> Iterable[Member]:
    """The parent's attributes, changed and without the removed ones, then the child's own."""
    merged = dict(inherited.attributes)
    for key, attribute in declared.attributes.items():
        # `name = AttributeError()`
        if not _REMOVED.match(attribute.text):
            merged[key] = attribute
        elif merged.pop(key, None) is None:
            what = f"the parent has no attribute `{key}` to remove"
            hint = did_you_mean(key, inherited.attributes)
            raise PatchgenError("PG621", at(attribute.line + 1, 4), what, hint)
    return merged.values()


def _merged_methods(
    declared: Members, inherited: Members, bases: Sequence[str], at: At
) -> Iterable[str]:
    """The parent's methods, overridden and without the removed ones, then the child's own."""
    tables = Tables()
    parents = parents_called(bases)
    theirs = inherited.methods
    # An attribute of the child takes the place of a method: `forward = run`.
    attributes = declared.attributes
    merged = {name: method.whole for name, method in theirs.items() if name not in attributes}
    for name, member in declared.methods.items():
        if name in theirs and member.leading == "\n" and _RAISING.match(member.text):
            merged.pop(name, None)
            continue
        method = cut_method(member)
        parent = cut_method(theirs[name]) if name in theirs else None
        body = merge_body(method, parent, tables, parents, theirs, at)
        if parent is None:
            head = _head(method, method.parameters, method.returns)
            merged[name] = f"{method.leading}{method.decorators}{head}{method.tail}{body}"
            continue
        # An override stands in the place and with the comments of the parent's method.
        place = (method.line, 4)
        decorators = _merged_decorators(method.decorators, parent.decorators, at, place)
        parameters = _merged_parameters(method.parameters, parent.parameters)
        head = _head(parent, parameters, method.returns or parent.returns)
        # An override without a docstring of its own inherits one.
        docstring = "" if docstring_of(method) else docstring_of(parent)
        merged[name] = f"{parent.leading}{decorators}{head}{method.tail}{docstring}{body}"
    return merged.values()


def _head(method: Method, parameters: str, returns: str) -> str:
    """The header of a method up to its colon."""
    return f"{method.between}{method.opening}({parameters}){f' {returns}' if returns else ''}:"


def _merged_parameters(child: str, parent: str) -> str:
    """The child's parameters.

    With `**super_kwargs`, the parent's, changed and followed by the child's own (llava_next_video):

    self, x, size=2, new=None, **super_kwargs       of the child
    self, x, mask, size=1, **kwargs                 of the parent
    self, x, mask, size=2, new=None, **kwargs       merged
    """
    # Nearly all methods: their parameters need not be split.
    if _SUPER_KWARGS not in child:
        return child
    plain, starred, star_kwargs = _split_parameters(child)
    # It may be in a default or in a longer name.
    if not star_kwargs or _name(star_kwargs[0]) != _SUPER_KWARGS:
        return child
    inherited, _, inherited_kwargs = _split_parameters(parent)
    # The first parameter is `self`, whether it is written or not.
    changed = {_name(item): item for item in plain[1:]}
    merged = [changed.pop(_name(item), item) for item in inherited]
    return joined([*merged, *changed.values(), *starred, *inherited_kwargs])


def _split_parameters(text: str) -> tuple[Sequence[Item], Sequence[Item], Sequence[Item]]:
    """A parameter list in its parts: ordinary ones, those from `*` on, and `**kwargs`."""
    entries = items(text)
    stars = [index for index, item in enumerate(entries) if item.text.startswith("*")]
    end = next((index for index in stars if entries[index].text.startswith("**")), len(entries))
    star = min([*stars, end])
    return entries[:star], entries[star:end], entries[end:]


def _name(item: Item) -> str:
    match = _PARAMETER.match(item.text)
    return (match.group(1) or "") if match else ""


def _merged_decorators(child: str, parent: str, at: At, place: tuple[int, int]) -> str:
    """The child's decorators, or else the parent's.

    A single `@no_inherit_decorator` asks for none; PG620 where it stands beside others.  A child
    that only names old parameters, by `@deprecate_kwarg(...)`, keeps the parent's other decorators
    above its own.
    """
    if not child:
        return parent
    if child.strip() == _NO_INHERIT:
        return ""
    if _NO_INHERIT in child.split():
        what = f"`{_NO_INHERIT}` stands beside other decorators"
        hint = "leave it out: decorators of the modular file replace the parent's"
        raise PatchgenError("PG620", at(*place), what, hint)
    if all(map(_names_old_parameters, _split_decorators(child))):
        others = itertools.filterfalse(_names_old_parameters, _split_decorators(parent))
        return "".join([*others, child])
    return child


def _split_decorators(texts: str) -> Iterator[str]:
    """The decorators one by one, with the lines of each."""
    return filter(None, re.split(r"^(?=[ \t]*@)", texts, flags=re.MULTILINE))


def _names_old_parameters(decorator: str) -> bool:
    return decorator.lstrip().startswith("@deprecate_kwarg(")


def _merged_arguments(
    child: Sequence[Item], parent: Sequence[Item], model_base: str
) -> tuple[Item, ...]:
    """The parent's arguments of the class header, with the child's further bases in their places.

    child       class Znew(Zpar, NewMixin)
    parent      class Znew(OldMixin, nn.Module)         merged      (NewMixin, nn.Module)

    Keywords are taken from the parent only.  `model_base` is the parent itself, whose bases stand
    here in its place.
    """
    extras = [item for item in child if not _is_keyword(item) and item.text != model_base]
    bases: list[Item] = []
    for base in parent:
        if _is_keyword(base):
            continue
        # `Generic[T]` and dotted names keep their places; one extra base replaces one base only.
        extra = _find_replacement(base.text, extras) if _BARE.match(base.text) else None
        if extra is not None:
            extras.remove(extra)
        bases.append(base if extra is None else replace(base, text=extra.text))
    texts = {base.text for base in bases}
    bases += [extra for extra in extras if extra.text not in texts]
    # A checkpointed layer is a module itself, and Python finds no order of bases where one stands
    # before its subclass.
    if {"nn.Module", CHECKPOINTED} <= set(_bases_of(bases)):
        bases = [base for base in bases if base.text != "nn.Module"]
    return (*bases, *filter(_is_keyword, parent))


def _bases_of(arguments: Iterable[Item]) -> tuple[str, ...]:
    """The bases among the arguments of a class header."""
    return tuple(item.text for item in arguments if not _is_keyword(item))


def _is_keyword(item: Item) -> bool:
    return _KEYWORD.match(item.text) is not None


def _find_replacement(base: str, extras: Iterable[Item]) -> Item | None:
    """The first extra base that ends as `base` does from a capital letter on (embedding_gemma2)."""
    for extra in extras:
        if common_suffix(base, extra.text)[:1].isupper() or extra.text.endswith(base):
            return extra
    return None
