"""A class of a variant beside its parent's, and what each of the two is seen to do.

Also which class of the parent a class of a variant stands for, and where both are imported from.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import linecache
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec
from os.path import commonprefix
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

import torch
from transformers import (
    MODEL_MAPPING,
    AutoModel,
    PreTrainedConfig,
    PreTrainedModel,
    modeling_layers,
)

from patchgen import disk
from patchgen.author.declare.registry import find_part_checks
from patchgen.runtime.interpreter import complete_interpreter, is_interpreted
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.blocks import first_line
from patchgen.verifying.differences import REORDERED
from patchgen.verifying.inputs.arguments import CannotBuild, Inputs
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.models import build as of_weights
from patchgen.verifying.observe.evidence import Evidence, gather_evidence
from patchgen.verifying.observe.step import is_causal, isolates_packed_texts, observe_step
from patchgen.verifying.parts.combine import both_eager, merge_routes, weights_route
from patchgen.verifying.parts.part_check import (
    Observation,
    PairFacts,
    PartCheck,
    Route,
    Scenario,
    reload,
    replaced,
)
from patchgen.verifying.variants import SETTING, Variant

_Both = tuple[PreTrainedModel, PreTrainedModel]


def _kept() -> Any:
    """A table that a pair fills while it lives."""
    return field(default_factory=dict, init=False, repr=False, compare=False)


# The tensors that each module of a model keeps beside its buffers, and None where it may keep one.
State = list[dict[str, torch.Tensor | None]]


def state_of(model: torch.nn.Module) -> State:
    """What `take_back` needs."""
    states: State = []
    for module in model.modules():
        kept = vars(module).items()
        states.append({n: v for n, v in kept if v is None or isinstance(v, torch.Tensor)})
    return states


def take_back(model: torch.nn.Module, state: State) -> None:
    """Take back what a forward pass has left: Qwen3-VL keeps `rope_deltas` of its last batch."""
    for module, before in zip(model.modules(), state, strict=True):
        attributes = vars(module)
        left = [name for name, value in attributes.items() if isinstance(value, torch.Tensor)]
        for name in left:
            if name not in before:
                del attributes[name]
        attributes |= before


@dataclass(frozen=True)
class Pair:
    """One class on both sides; models and observations are kept for as long as it lives."""

    variant: Variant
    head: str
    device: str = "cpu"
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the tiny configuration
    seed: int = 0  # of weights and inputs
    is_neutral: bool = False  # beside the parent itself, with what makes the variant equal to it
    _configs: dict[float, PreTrainedConfig] = _kept()
    _models: dict[Any, _Both] = _kept()
    _states: dict[Any, list[State]] = _kept()
    _observations: dict[Any, dict[str, torch.Tensor]] = _kept()

    @functools.cached_property
    def module(self) -> ModuleType:
        return module_of(self.variant)

    @functools.cached_property
    def part_checks(self) -> tuple[PartCheck, ...]:
        return find_part_checks(self.variant.checked_parts)

    @functools.cached_property
    def variant_class(self) -> type[PreTrainedModel]:
        return getattr(self.module, self.head)

    @functools.cached_property
    def parent_class(self) -> type[PreTrainedModel]:
        return find_parent_class(self.variant, self.head)

    @functools.cached_property
    def own_settings(self) -> frozenset[str]:
        if self.build is not reload:  # a part says what they change
            return frozenset()
        ours = self.variant_class.config_class
        theirs = self.parent_class.config_class
        return _fields_of(ours) - _fields_of(theirs)

    @functools.cached_property
    def plain_parent(self) -> PreTrainedModel:
        """As transformers has it, whatever differs on purpose; in float64, on the CPU."""
        plain = find_parent_class(replace(self.variant, differs=()), self.head)
        return of_weights.build_parent(plain, self.config(), torch.float64, self.seed)

    @functools.cached_property
    def new_parameters(self) -> tuple[str, ...]:
        """Those that the parent's checkpoint does not have; none where a part converts it."""
        if self.build is not reload:
            return ()
        with disk.scratch() as folder, of_weights.silence_progress():
            self.plain_parent.save_pretrained(folder)
            model, report = self.variant_class.from_pretrained(folder, output_loading_info=True)
        missing = {*report["missing_keys"]}
        return tuple(name for name, _ in model.named_parameters() if name in missing)

    def of_parent(self) -> Pair:
        name = self.parent_class.__name__
        none: Any = dict.fromkeys(("parts", "changes", "differs"), ())
        variant = replace(self.variant, module=self.variant.parent, heads=(name,), **none)
        return Pair(variant, name, self.device, self.changes, self.seed)

    @functools.cached_property
    def routes(self) -> tuple[Route, Route]:
        return merge_routes(self.part_checks, self.parent_class)

    @functools.cached_property
    def eager_route(self) -> Route:
        closest, independent = self.routes
        return replace(both_eager(closest), bound=max([independent.bound, REORDERED]))

    def route(self, number: int) -> Route:
        return (*self.routes, self.eager_route)[number]

    @functools.cached_property
    def weights_route(self) -> Route:
        return weights_route(self.part_checks, self.routes)

    @functools.cached_property
    def build(self) -> Any:
        if self.is_neutral:
            return functools.partial(_build_neutral, self.variant)
        return next((each.build for each in self.part_checks if each.build is not reload), reload)

    def config(self, dropout: float = 0.0) -> PreTrainedConfig:
        if dropout not in self._configs:
            config = tiny_config(self.parent_class.config_class, dropout, **self.changes)
            self._configs[dropout] = config
        return copy.deepcopy(self._configs[dropout])

    # --- models

    def models(
        self, route: Route, dtype: torch.dtype, dropout: float = 0.0, *, fresh: bool = False
    ) -> _Both:
        """Parent and variant with equal weights; `fresh` ones may be spoilt."""
        key = (route.name, dtype, dropout)
        if key not in self._models:
            self._models[key] = self.built(route, dtype, dropout)
            self._states[key] = [state_of(model) for model in self._models[key]]
        both = self._models[key]
        for model, state in zip(both, self._states[key], strict=True):
            take_back(model, state)
        if not fresh:
            return both
        try:
            return copy.deepcopy(both)
        except RuntimeError:  # LeViT keeps biases that it has computed, which cannot be copied
            return self.built(route, dtype, dropout)

    def built(self, route: Route, dtype: torch.dtype, dropout: float = 0.0) -> _Both:
        master = self.master(dtype, dropout)
        parent, variant = of_weights.build_both(master, self.variant_class, self.build, route)
        for part_check in self.part_checks:
            part_check.prepare(parent)
        wide = torch.float64 if dtype == torch.float64 else None  # XLNet names float32 for its own
        return parent.to(self.device, wide), variant.to(self.device, wide)

    def master(self, dtype: torch.dtype, dropout: float = 0.0) -> PreTrainedModel:
        try:
            config = self.config(dropout)
        except Exception as error:  # each configuration has its own
            name = self.parent_class.__name__
            what = f"{type(error).__name__}: {error}"
            raise CannotBuild(f"{name} has no tiny configuration: {what}") from error
        return of_weights.build_parent(self.parent_class, config, dtype, self.seed)

    # --- observations

    def inputs(self, scenario: Scenario, dtype: torch.dtype, seed: int = 0) -> Inputs:
        ways = dict.fromkeys((*scenario.ways, *self.variant.in_text))
        scenario = replace(scenario, ways=tuple(ways))
        drawn = make_inputs(self.parent_class, self.config(), scenario, seed + 97 * self.seed)
        return drawn.to(self.device, dtype)

    def observe_parent(
        self,
        route: Route,
        dtype: torch.dtype,
        scenario: Scenario,
        *,
        weights: bool = False,
        seed: int = 0,
    ) -> dict[str, torch.Tensor]:
        """The parent's side; it is never checkpointed.  `seed` draws other inputs."""
        key = (route.name, dtype, repr(replace(scenario, checkpointing=None)), weights, seed)
        if key not in self._observations:
            parent, _ = self.models(route, dtype, scenario.dropout)
            inputs = self.inputs(scenario, dtype, seed)
            how = {"checkpointing": False}
            try:
                observed = observe_step(parent, inputs, scenario, weights=weights, **how)
                self._observations[key] = observed
            except Exception as error:  # each has its own: XLNet's positions are always float32
                raise CannotBuild(f"the parent itself does not run so: {error}") from error
        return self._observations[key]

    def observe_variant(
        self,
        route: Route,
        dtype: torch.dtype,
        scenario: Scenario,
        *,
        weights: bool = False,
        model: PreTrainedModel | None = None,
        seed: int = 0,
    ) -> Observation:
        """The variant's side, in the parent's terms."""
        variant = model if model is not None else self.models(route, dtype, scenario.dropout)[1]
        inputs = self.inputs(scenario, dtype, seed)
        observed: Observation = observe_step(variant, inputs, scenario, weights=weights)
        for part_check in self.part_checks:
            observed = part_check.terms(observed, variant)
        if self.is_neutral:
            parent = self.observe_parent(route, dtype, scenario, weights=weights)
            observed = {name: tensor for name, tensor in observed.items() if name in parent}
        return observed

    def evidence(self, scenario: Scenario) -> tuple[Evidence, Evidence]:
        """What parent and variant run along the first route, in float32."""
        inputs = self.inputs(scenario, torch.float32)
        parent, variant = self.models(self.routes[0], torch.float32, scenario.dropout)
        with gather_evidence(parent) as theirs:
            try:
                observe_step(parent, inputs, scenario, checkpointing=False)
            except Exception as error:  # each has its own: DBRX's experts fail under autocast
                raise CannotBuild(f"the parent itself does not run so: {error}") from error
        with gather_evidence(variant) as ours:
            observe_step(variant, inputs, scenario, checkpointing=True)
        return theirs, ours

    # --- what is measured of the parent

    @functools.cached_property
    def facts(self) -> PairFacts:
        inputs = self.inputs(Scenario(), torch.float32)
        given = self.config(), inputs.given, inputs.lengths, self.is_causal
        return PairFacts(self.parent_class, self.variant_class, *given)

    @functools.cached_property
    def is_causal(self) -> bool:
        """No output of the parent depends on a later token of the text."""
        parent, _ = self.models(self.routes[0], torch.float32)
        inputs = self.inputs(Scenario(labels=False), torch.float32)
        try:
            return is_causal(parent, inputs)
        except Exception as error:  # each has its own
            raise CannotBuild(f"the parent itself does not run so: {error}") from error

    @functools.cached_property
    def isolates_packed_texts(self) -> bool:
        """The second of two texts in a row does not see the first."""
        parent, _ = self.models(self.routes[0], torch.float32)
        packed = self.inputs(Scenario(rows="packed", labels=False), torch.float32)
        try:
            return isolates_packed_texts(parent, packed)
        except Exception:  # each has its own: the parent itself does not run so
            return False


def _fields_of(kind: type[PreTrainedConfig]) -> frozenset[str]:
    names = set[str]()
    for each in (kind, *kind.sub_configs.values()):
        for base in each.__mro__:
            names.update(vars(base).get("__annotations__", ()))
    return frozenset(names)


def _build_neutral(
    variant: Variant,
    parent: PreTrainedModel,
    variant_class: type[PreTrainedModel],
    folder: Path,
    settings: Mapping[str, Any],
) -> PreTrainedModel:
    """The variant from the parent's checkpoint, with new parameters at their neutral values."""
    parent.save_pretrained(folder)
    model = variant_class.from_pretrained(folder, dtype=parent.dtype, **settings)
    theirs = set(parent.state_dict())
    values = {name: value for name, value in variant.equal_if if not name.startswith(SETTING)}
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in theirs:
                normal = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
                parameter.copy_(normal)
            for ending, value in values.items():
                if name.endswith(ending):
                    parameter.fill_(value)
    return model


# --- classes


def module_of(variant: Variant) -> ModuleType:
    """The generated module; another project's package of its name is forgotten first."""
    top = variant.module.partition(".")[0]
    path = variant.path.resolve()
    module = sys.modules.get(variant.module)
    # Imported twice, its classes would no longer be those of the models that were built.
    if module is not None and Path(module.__file__ or "").resolve() == path:
        return module
    if path.exists() and _is_elsewhere(sys.modules.get(top), Path(variant.home)):
        for name in [name for name in sys.modules if name.partition(".")[0] == top]:
            del sys.modules[name]
    sys.path.insert(0, variant.home)
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(variant.module)
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        raise CannotBuild(str(error)) from error  # kernels that this machine need not have
    finally:
        sys.path.remove(variant.home)
    if is_interpreted() and "liger_kernel" in sys.modules:
        complete_interpreter()
    if path.exists() and Path(module.__file__ or "").resolve() != path:
        raise CannotBuild(f"{variant.module} is imported from {module.__file__}, not from {path}")
    return module


def _is_elsewhere(package: ModuleType | None, home: Path) -> bool:
    """Whether this top-level package is of another folder than `home`; no package is."""
    spec: ModuleSpec | None = getattr(package, "__spec__", None)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return bool(places) and (home / Path(places[0]).name).resolve() != Path(places[0]).resolve()


@functools.cache
def _mixed_parent(variant: Variant) -> ModuleType:
    """The parent's module with the variant's classes in place of those that differ on purpose.

    Its text imports them, so that what reads a class when the module is made gets the variant's.
    """
    parent = importlib.import_module(variant.parent)
    path = Path(str(parent.__file__))
    text = disk.text_of(path)
    lines = text.splitlines(keepends=True)
    ours = variant.heads[0]
    theirs = find_parent_class(replace(variant, differs=()), ours).__name__
    ending = commonprefix([ours[::-1], theirs[::-1]])[::-1]
    prefix = theirs.removesuffix(ending)
    own_prefix = ours.removesuffix(ending)

    def name_in_variant(name: str) -> str:
        return own_prefix + name.removeprefix(prefix)

    # From the end, so that the lines before stay where they are.
    for node in reversed(ast.parse(text).body):
        if not isinstance(node, ast.ClassDef):
            continue
        of_variant = name_in_variant(node.name) if node.name.startswith(prefix) else node.name
        if of_variant in variant.replaced:
            imported = f"from {variant.module} import {of_variant} as {node.name}\n"
            first = first_line(node) - 1
            lines[first : node.end_lineno] = [imported]
    module = module_of(variant)
    # The text is in no file; Python and torch find it where they look for lines.
    mixed = ModuleType(f"{variant.parent}_with_{variant.name}")
    mixed.__package__ = variant.parent.rpartition(".")[0]
    mixed.__file__ = str(path.with_name(f"{mixed.__name__}.py"))
    linecache.cache[mixed.__file__] = (len(text), None, lines, mixed.__file__)
    sys.modules[mixed.__name__] = mixed
    code = compile("".join(lines), mixed.__file__, "exec", dont_inherit=True)
    exec(code, vars(mixed))
    for value in [*vars(mixed).values()]:
        if not isinstance(value, type) or value.__module__ != mixed.__name__:
            continue
        name = value.__name__
        bases = {base.__module__ for base in value.__mro__}
        if modeling_layers.__name__ in bases and "__init__" not in vars(value):
            _give_own_inner_model(value, mixed)
        if not name.endswith("PreTrainedModel"):
            continue
        members = vars(vars(module).get(name_in_variant(name), value))
        if "_init_weights" in members:
            # What it asks for are classes of the mixed module, by the variant's names.
            renamed = {name_in_variant(name): each for name, each in vars(mixed).items()}
            names = {**vars(module), **renamed, **vars(mixed)}
            initialize = inspect.unwrap(members["_init_weights"])
            _initialize_as(value, initialize, names)
    return mixed


def _initialize_as(base: type, initialize: FunctionType, names: dict[str, Any]) -> None:
    """Let models of `base` set what the variant's classes have: its method, as one of `base`."""
    free = zip(initialize.__code__.co_freevars, initialize.__closure__ or (), strict=True)
    closure = tuple(CellType(base) if name == "__class__" else cell for name, cell in free)
    method = FunctionType(initialize.__code__, names, "_init_weights", None, closure)
    base._init_weights = torch.no_grad()(method)  # type: ignore[attr-defined]


def _give_own_inner_model(head: type, module: ModuleType) -> None:
    """Let a head of transformers' generic kinds build the module's model, and no registered one."""
    build: Any = head.__init__  # type: ignore[misc]

    @functools.wraps(build)
    def init(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        def make(registered: Any) -> Any:
            name = MODEL_MAPPING[type(config)].__name__
            return lambda config, **options: getattr(module, name)._from_config(config)

        with replaced(AutoModel, "from_config", make):
            build(self, config, *args, **kwargs)

    head.__init__ = init  # type: ignore[misc]


def find_parent_class(variant: Variant, head: str) -> type[PreTrainedModel]:
    """The parent's class of that name, of one that goes on in `head`, or of the same ending."""
    parent = _mixed_parent(variant) if variant.replaced else importlib.import_module(variant.parent)
    if hasattr(parent, head):
        return getattr(parent, head)
    begun = [name for name in parent.__all__ if head.startswith(name)]
    if begun:
        return getattr(parent, max(begun, key=len))
    ending = _ENDING.search(head)
    like = [
        name
        for name in parent.__all__
        if not name.endswith("PreTrainedModel") and (own := _ENDING.search(name))
        if ending is not None and own[0] == ending[0]
    ]
    if len(like) != 1:
        raise CannotBuild(f"{variant.parent} has no class that corresponds to {head}")
    return getattr(parent, like[0])


# What stands behind the prefix of a head: "ForCausalLM" of LlamaForCausalLM.
_ENDING = re.compile(r"(For[CMSTQPNIA]|LMHead|DoubleHeads|Model$|Encoder).*$")
