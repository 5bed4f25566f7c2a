"""Find which names a top-level statement may change, and which it reads while it runs.

In: a block and its module.  Out: its `Change`.  A statement changes the names that it binds; what
it stores into, deletes from, or calls a method of; what it passes to a call; and what the functions
that it calls change:

    ACTS = {}                       binds ACTS
    def register(f): ACTS[f.__name__] = f
    @register
    def _double(x): ...             binds _double, changes ACTS

Nothing is run, so the result may name too much, but never too little.  Two kinds of names are not
changed: one that stands for a number or a string, and a function or class that is called and not
stored into.  Every other name that a called function reads may be changed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.carried import CarriedNames
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.reads import Reference
from patchgen.syntax.side_effects import SideEffects, read_call_effects, read_import_effects
from patchgen.syntax.trees import Position, global_names

# Calling what these packages define has no effect but its value.
_PLAIN = frozenset(
    "abc collections contextlib contextvars copy dataclasses enum functools importlib inspect"
    " itertools logging math numpy operator patchgen pathlib re string threading torch transformers"
    " types typing typing_extensions weakref".split()
)
# What these hold can be changed from anywhere: `os.environ["HOME"]`.
_STATES = frozenset({"os", "sys"})
_ACTING_BUILTINS = frozenset({"exec", "eval", "print", "open", "input", "globals"})
# These can change names that no text spells, so nothing is known after them.
_UNBOUNDED = frozenset({"exec", "globals"})
# The exceptions to `_PLAIN`: they keep what they are given, in tables of torch.
_REGISTERING = ("torch.library", "torch.fx", "torch.serialization", "torch.utils._pytree")
# And calls of other packages that only read.
_PLAIN_CALLS = ("os.getenv", "os.path", "os.environ.get", "sys.version_info")


@dataclass(frozen=True, slots=True)
class Change:
    """`symbols` may be changed, and `reads` are read meanwhile.

    `outside`: something that no flat file carries may be changed, such as the environment or a
    module of torch.
    """

    symbols: frozenset[Symbol]
    reads: frozenset[Symbol]
    outside: bool
    reads_outside: bool = False  # a value of it may depend on what was changed outside
    anything: bool = False  # `exec`, `globals()`: names that no text says

    def concerns_only_outside(self, own: frozenset[Symbol]) -> bool:
        """Whether it changes nothing that a flat file could carry.

        `own` are the names that the statement itself binds.
        """
        return self.anything or (self.outside and self.symbols <= own)


@dataclass(frozen=True)
class Changes:
    """The changes of the statements of any module, each computed once."""

    bindings: Bindings
    layers: tuple[ModuleIndex, ...] = ()
    _known: dict[tuple[str, int], Change] = field(default_factory=dict, repr=False, compare=False)

    def of(self, module: ModuleIndex, block: Block) -> Change:
        """What `block` of `module` changes and reads when it runs."""
        key = (module.source.module, block.first)
        if key not in self._known:
            self._known[key] = self._compute(module, block)
        return self._known[key]

    def is_pure(self, module: ModuleIndex, block: Block) -> bool:
        """Whether running `block` does nothing but bind its names."""
        change = self.of(module, block)
        return not change.outside and change.symbols <= own_symbols(module, block)

    def _compute(self, module: ModuleIndex, block: Block) -> Change:
        """Follow all that running `block` may do."""
        layers = {layer.source.module: layer for layer in self.layers}
        search = _Search(CarriedNames(self.bindings, layers))
        search.changed |= own_symbols(module, block)
        # Importing a module is the business of that module.
        if block.kind != "import":
            search.run(module, block)
        return Change(
            symbols=frozenset(search.changed),
            reads=frozenset(search.read),
            outside=search.outside,
            reads_outside=search.reads_outside,
            anything=search.anything,
        )


def own_symbols(module: ModuleIndex, block: Block) -> frozenset[Symbol]:
    """The names that `block` binds, as symbols of its module."""
    return frozenset(Symbol(module.source.module, name) for name in block.defines)


class _Search:
    """What is reached from one statement."""

    def __init__(self, names: CarriedNames) -> None:
        self._names = names
        self._followed: set[Symbol] = set()
        self._altered: set[Symbol] = set()
        self.changed: set[Symbol] = set()
        self.read: set[Symbol] = set()
        self.outside = False
        self.reads_outside = False
        self.anything = False

    def run(self, module: ModuleIndex, block: Block) -> None:
        """The statement itself: what it reads at once, and what it does."""
        eager = [reference for reference in block.references if reference.eager]
        effects = read_import_effects(block.text)
        self.read.update(self._names.carried(module, eager))
        self._apply(module, block.references, effects)
        if block.kind in ("class", "def", "import") or effects.is_pure:
            return
        # What a loop binds stands for what the statement reads: `for t in (A, B): t["x"] = 1`.
        if _find_touched(block, effects) & set(block.defines):
            for symbol in self._names.carried(module, eager):
                self._change(symbol)

    def _apply(
        self, module: ModuleIndex, references: Iterable[Reference], effects: SideEffects
    ) -> None:
        """Follow the effects of a statement at each name that it reads."""
        for reference in references:
            symbol = self._names.meaning(module, reference)
            if symbol is None:
                self._apply_to_builtin(reference, effects)
            elif self._names.is_carried(symbol):
                self._apply_to(symbol, reference.position, effects)
            else:
                self.outside |= _acts_outside(symbol, reference, effects)
                self.reads_outside |= _reads_outside(symbol, reference, effects)

    def _apply_to_builtin(self, reference: Reference, effects: SideEffects) -> None:
        """Follow a call of a builtin, such as `print` or `exec`."""
        if reference.position in effects.called:
            self.outside |= reference.name in _ACTING_BUILTINS
            self.anything |= reference.name in _UNBOUNDED

    def _apply_to(self, symbol: Symbol, position: Position, effects: SideEffects) -> None:
        """Follow the effects at one name, which means `symbol`."""
        if position in effects.called:
            self._call(symbol)
            if not self._names.is_state(symbol):
                return  # calling a function or class does not change it
        if self._may_change_object(symbol, position, effects):
            self._change(symbol)
        if self._may_run_for_class(symbol, position, effects):
            self._change(symbol)

    def _may_run_for_class(self, symbol: Symbol, position: Position, effects: SideEffects) -> bool:
        """Whether the name stands in a class line, and its code runs for the class."""
        # A metaclass runs for each class; so does the hook of a base, where it has one.
        if position in effects.metaclasses:
            return True
        return position in effects.bases and self._names.runs_for_heirs(symbol)

    def _may_change_object(self, symbol: Symbol, position: Position, effects: SideEffects) -> bool:
        """Whether what is done with the name may change the object that it stands for."""
        touched = effects.called | effects.changed | effects.passed | effects.discarded
        if position in touched:
            return True
        # What a class body or a decorator keeps can be changed there later.
        if position in effects.retained and self._names.is_state(symbol):
            return True
        # A property or an operator of an own class may do anything.
        return position in effects.used and self._names.is_of_own_class(symbol)

    def _change(self, symbol: Symbol) -> None:
        """Record that `symbol` may be changed, and all that it was made of."""
        if symbol not in self._altered:
            self._altered.add(symbol)
            # What is known of the name is followed again, as changed.
            self.changed.add(symbol)
            self._followed.discard(symbol)  # what it was made of changes with it
        self._call(symbol)

    def _call(self, symbol: Symbol) -> None:
        """What `symbol` may do when it is called, or when a method of it is."""
        # Recursive functions are followed once.
        self.read.add(symbol)
        if symbol in self._followed:
            return
        self._followed.add(symbol)
        for module, block in self._names.blocks(symbol):
            if block.kind in ("def", "class"):
                self._run_body(module, block)
            elif block.kind != "import":
                self._alias(symbol, module, block)

    def _run_body(self, module: ModuleIndex, block: Block) -> None:
        """Follow what the body of a function, or the methods of a class, may do."""
        effects = read_call_effects(block.text)
        self._apply(module, block.references, effects)
        # `global COUNT` in a function binds a name of its module.
        rebound = _find_global_names(block.text)
        self.changed.update(Symbol(module.source.module, name) for name in rebound)
        for reference in block.references:
            symbol = self._names.meaning(module, reference)
            if symbol is None or not self._names.is_carried(symbol):
                continue
            self.read.add(symbol)
            # A function that is only named may be called by what it is given to; one that stands
            # in a quoted annotation is not there at run time.
            may_be_called = reference.position in effects.called or not reference.quoted
            # A function may change every mutable object that it can name.
            if self._names.is_state(symbol):
                self._change(symbol)
            elif may_be_called:
                self._call(symbol)

    def _alias(self, symbol: Symbol, module: ModuleIndex, block: Block) -> None:
        """Follow an assignment.

        `B = A`: changing B changes A.  `OBJ = Registry()`: a method of OBJ is code of Registry.
        """
        called = read_import_effects(block.text).called
        for reference in block.references:
            other = self._names.meaning(module, reference)
            if other is None or not self._names.is_carried(other) or not reference.eager:
                continue
            self.read.add(other)
            is_call = reference.position in called and not self._names.is_state(other)
            if is_call:
                self._call(other)
            elif symbol in self._altered and not self._names.is_plain(other):
                self._change(other)


def _find_touched(block: Block, effects: SideEffects) -> set[str]:
    """The names of the statement that it stores into or passes to a call."""
    positions = effects.changed | effects.passed
    return {reference.name for reference in block.references if reference.position in positions}


def _acts_outside(symbol: Symbol, reference: Reference, effects: SideEffects) -> bool:
    """Whether others notice what is done with an imported name.

    torch.manual_seed(3)                    they do: nothing uses the value of the call
    torch.backends.cudnn.benchmark = True   they do
    PI = torch.zeros(3)                     they do not
    """
    position = reference.position
    # A statement that is only a call: why else would it be there?
    if position in effects.stored or position in effects.discarded:
        return True
    if position not in effects.changed and position not in effects.called:
        return False
    dotted = ".".join([str(symbol), *reference.attributes])
    package = symbol.module.partition(".")[0]
    if package in _PLAIN and not dotted.startswith(_REGISTERING):
        return False
    return not dotted.startswith(_PLAIN_CALLS)


def _reads_outside(symbol: Symbol, reference: Reference, effects: SideEffects) -> bool:
    """Whether what an imported name gives may depend on what was done before."""
    package = symbol.module.partition(".")[0]
    if reference.position in effects.called | effects.changed:
        return package not in _PLAIN
    return package in _STATES and reference.position in effects.used


@functools.lru_cache(maxsize=4096)
def _find_global_names(text: str) -> frozenset[str]:
    """The names that functions in `text` bind at module level."""
    # Parsing is what takes the time, and next to no function declares a global.
    if "global" not in text:
        return frozenset()
    return frozenset(global_names(ast.parse(text)))
