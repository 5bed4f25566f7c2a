"""Finds the line of the model's code where something happened."""

from __future__ import annotations

import inspect
import traceback

from patchgen.syntax.errors import Location

_NOT_THE_MODEL = ("/torch/", "/patchgen/training/memory/", "/patchgen/cli/", "/click/", "<")
# Code of transformers that calls modules, and is not part of a model.
_MACHINERY = ("/transformers/utils/", "/transformers/modeling_layers.py")


def find_caller() -> Location:
    """Return the line of the model that is running now."""
    for frame, line in traceback.walk_stack(inspect.currentframe()):
        if _is_model(frame.f_code.co_filename):
            return Location(_shorten(frame.f_code.co_filename), line, 1)
    return Location("the model")


def find_origin(error: BaseException) -> Location:
    """Return the innermost line of the model in the traceback of `error`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_model(frame.filename):
            return Location(_shorten(frame.filename), frame.lineno or 0, 1)
    return Location("the model")


def _is_model(name: str) -> bool:
    path = name.replace("\\", "/")
    return not any(part in path for part in (*_NOT_THE_MODEL, *_MACHINERY))


def _shorten(name: str) -> str:
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in name:
            return name.partition(mark)[2]
    return name
