"""What the decorators of transformers, and a few of Python and huggingface_hub, do to a class.

A decorator that is missing from a table may do anything: the class then stays a subclass, or is
refused.
"""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """What a class decorator asks for when the class below it is merged."""

    ONCE = "the nearest class's own; it says nothing about behaviour"
    FIELDS = "the nearest class's own, where `fields` finds that the classes agree"
    KERNEL = "dropped where `forward`, or what it uses, is not the parent's any more"
    EXPERTS = (
        "dropped where `forward` is not the parent's any more, "
        "refused where its attributes are missed"
    )
    REGISTERS = "all of them, as long as the parent's `__init__` runs"


KERNELIZED = "use_kernelized_func"
"""Lets a kernel of the hub take the place of the function that it is given."""

RULES: dict[str, tuple[Rule, str]] = {
    "auto_docstring": (Rule.ONCE, "writes __doc__"),
    "add_start_docstrings": (Rule.ONCE, "writes __doc__"),
    "requires": (Rule.ONCE, "names packages that must be installed"),
    "dataclass": (Rule.FIELDS, "makes fields of the annotations of one class"),
    "strict": (Rule.FIELDS, "checks what is assigned to the fields of one class"),
    "use_kernel_forward_from_hub": (
        Rule.KERNEL,
        "lets a kernel of the hub replace forward, overridden or not",
    ),
    "use_experts_implementation": (Rule.EXPERTS, "wraps forward and __init__"),
    "use_kernelized_func": (
        Rule.REGISTERS,
        "adds module functions to what kernels may replace, in __init__",
    ),
}

# These make fields of the annotations of a class.
FIELD_DECORATORS = frozenset({"dataclass", "strict"})
# What a decorator adds to the class besides what every class has; others may add anything.
ADDED_MEMBERS: dict[str, tuple[str, ...]] = {
    "auto_docstring": (),
    "add_start_docstrings": (),
    "dataclass_transform": ("__dataclass_transform__",),
    "runtime_checkable": (),
    "dataclass": ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__"),
    "strict": ("__validators__", "__class_validators__", "__post_init__", "validate"),
}
# `@strict` gives these to the class below it.
GIVEN_BY_STRICT = ("validate", "__post_init__")
# What `use_experts_implementation` sets on a class.
SET_BY_EXPERTS = frozenset(
    {
        "config",
        "has_bias",
        "has_gate",
        "has_post_expert_norm",
        "is_concatenated",
        "is_transposed",
        "_apply_gate",
        "_is_expert_parallel",
    }
)
# Decorators that leave the signature of the class's `__init__` as written.
KEEPING_SIGNATURE = frozenset(
    {"auto_docstring", "use_kernelized_func", "use_kernel_forward_from_hub"}
)
# Decorators that give a class or function its documentation and change nothing else.
DOCUMENTING = frozenset(
    {
        "add_code_sample_docstrings",
        "add_end_docstrings",
        "add_start_docstrings",
        "add_start_docstrings_to_model_forward",
        "auto_class_docstring",
        "auto_docstring",
        "custom_args",
        "replace_return_docstrings",
    }
)
# Decorators that give the class below them no method or attribute that code calls by name.
ADDING_NOTHING = frozenset(
    {
        "add_start_docstrings",
        "auto_docstring",
        "dataclass",
        "requires",
        "use_experts_implementation",
        "use_kernel_forward_from_hub",
        "use_kernelized_func",
    }
)
# Decorators of functions that take no keywords of their own.
TAKING_NO_KEYWORDS = frozenset(
    {"auto_docstring", "deprecate_kwarg", "dynamic_rope_update", "torch.no_grad"}
)
# Decorators that pass on what a method is given, but for keywords of their own.
KEEPING_CALLS = frozenset(
    {
        "add_start_docstrings_to_model_forward",
        "auto_docstring",
        "can_return_tuple",
        "capture_outputs",
        "deprecate_kwarg",
        "dynamic_rope_update",
        "merge_with_config_defaults",
        "torch.no_grad",
    }
)
