"""Packages that some commands need, and that patchgen can be installed without."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

MODEL_PACKAGES = ("torch", "transformers")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def require_models(what: str, extra: str = "models") -> None:
    """Raise a usage error if torch or transformers is missing; `extra` is what installs them."""
    for package in MODEL_PACKAGES:
        if importlib.util.find_spec(package) is None:
            install = f"pip install 'patchgen[{extra}]'"
            raise click.UsageError(f"{what} runs models and needs {package}: {install}")


def needs_models(
    extra: str = "models",
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Decorate a command that runs models: where it cannot, it says so before it does anything."""

    def decorate(command: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @functools.wraps(command)
        def run(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            require_models(command.__name__, extra)
            return command(*args, **kwargs)

        return run

    return decorate
