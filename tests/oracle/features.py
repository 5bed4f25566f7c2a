"""The random dimensions of the grammar that concern one class: from random choices to a `Feature`.

A method of a parent and its override, with a position of `super()`, a signature, or anything at all
drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.oracle.bodies import EASY, POOL, SIGNATURES, Body, Signature
from tests.oracle.case import Draw, Feature, indented
from tests.oracle.positions import ASYNC, GENERATOR, METHOD

Maker = Callable[[Draw], Feature]
NAMES = ("forward", "compute", "step", "__call__")


def method(
    draw: Draw,
    templates: Sequence[str] = ("return <S>",),
    signature: Signature | None = None,
    kind: str = "method",
    statements: int = 2,
    early: bool = True,
) -> Feature:
    """A method of a parent with a random body, overridden around a call of it."""
    sig = signature or SIGNATURES[draw.choice(EASY)]
    name = draw.choice(NAMES)
    parent = _parent_method(draw, name, sig, kind, statements, early)
    child = _child_method(draw, name, sig, kind, draw.choice(templates))
    return Feature(parent, child, calls_of(name, sig.calls, kind), middle=_middle(draw, name, kind))


def calls_of(name: str, arguments: Sequence[str], kind: str) -> tuple[str, ...]:
    """Expressions that call method `name` of `obj`."""
    around = {
        "method": "{}",
        "async": "run({})",
        "generator": "list({})",
        "async generator": "run({})",
    }[kind]
    return tuple(around.format(f"obj.{name}({given})") for given in arguments)


def _parent_method(
    draw: Draw, name: str, sig: Signature, kind: str, statements: int, early: bool
) -> str:
    names = list(sig.parent_names)
    body = Body(draw, names, "P", early and kind == "method", draw.pick("shift", "scale"))
    body.write(draw.randrange(statements + 1))
    head = _head(name, sig.parent, kind)
    if "seen" in sig.parent:
        body.lines.insert(0, "seen.append(a)\nself.n += len(seen)")
    value = body.value(1)
    tail = {
        "method": f"return {value}",
        "async": f"return await Ready({value})",
        "generator": f"yield {value}\nyield {body.value(1)}\nreturn {value}",
        "async generator": f"yield await Ready({value})\nyield 2",
    }[kind]
    text = "\n".join([*body.lines, tail])
    return f"{head}\n{indented(text)}"


def _child_method(draw: Draw, name: str, sig: Signature, kind: str, template: str) -> str:
    kept = ("kwargs",) if "kwargs" in sig.child else ()
    body = Body(draw, list(sig.names), "C", early=kind == "method", function="shift", kept=kept)
    body.write(draw.randrange(3))
    bound = draw.choice([*body.names, "1"])
    local, other = draw.sample([n for n in POOL if n not in ("shift", *kept, *sig.names)], 2)
    call = f"super().{name}({sig.forward})"
    text = "\n".join([*body.lines, template])
    for token, value in {
        "<S>": call,
        "<V>": local,
        "<W>": other,
        "<E>": bound,
    }.items():
        text = text.replace(token, value)
    return f"{_head(name, sig.child, kind)}\n{indented(text)}"


def _head(name: str, parameters: str, kind: str) -> str:
    start = "async def" if kind.startswith("async") else "def"
    return f"{start} {name}(self{', ' if parameters else ''}{parameters}):"


def _middle(draw: Draw, name: str, kind: str) -> str:
    if draw.chance(0.5):
        return ""
    start = "async def" if kind == "async" else "def"
    call = f"{'await ' if kind == 'async' else ''}super().{name}(*args, **kwargs)"
    tail = draw.pick(f"return {call}", f"value = {call}\nreturn value")
    note = indented("note('mid')")
    return f"{start} {name}(self, *args, **kwargs):\n{note}\n{indented(tail)}"


def _position(templates: Sequence[str], kind: str) -> Maker:
    return lambda draw: method(draw, templates, kind=kind)


def _signature(sig: Signature) -> Maker:
    def make(draw: Draw) -> Feature:
        easy = [t for place in ("statement", "return", "assign", "operator") for t in METHOD[place]]
        return method(draw, easy, sig)

    return make


def wild(draw: Draw) -> Feature:
    """Any position with any signature and long bodies on both sides."""
    places = [t for templates in METHOD.values() for t in templates]
    return method(draw, places, draw.choice(list(SIGNATURES.values())), statements=6)


def straight(draw: Draw) -> Feature:
    """What variants mostly are: a call first or last, long bodies without early returns."""
    places = [*METHOD["statement"], *METHOD["return"], *METHOD["assign"]]
    return method(draw, places, SIGNATURES[draw.choice(EASY)], statements=6, early=False)


RANDOM: dict[str, Maker] = {
    **{f"super in {place}": _position(templates, "method") for place, templates in METHOD.items()},
    **{f"super in {place}": _position(templates, "async") for place, templates in ASYNC.items()},
    **{
        f"super in {place}": _position(templates, "generator")
        for place, templates in GENERATOR.items()
    },
    **{f"signature {name}": _signature(sig) for name, sig in SIGNATURES.items()},
    "straight": straight,
    "wild": wild,
}

INIT = """
    def __init__(self, n=3):
        self.n = n
        self.items = []
"""
"""The parent's `__init__` where a feature does not bring its own."""
