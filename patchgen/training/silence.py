"""Switches off the progress bars, log messages and warnings of transformers and torch."""

from __future__ import annotations

import logging as python_logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

from patchgen.verifying.models.build import silence_progress

# torch logs each error of a fake tensor with its traceback, and then raises it.
_FAKE_TENSOR_LOGGER = "torch._subclasses.fake_tensor"


def silence_process() -> None:
    """Show nothing of transformers but errors until the process ends."""
    logging.set_verbosity_error()


@contextmanager
def silence_models() -> Iterator[None]:
    """Show no progress bars, no warnings, and no log of fake tensors that fail."""
    verbosity = logging.get_verbosity()
    fakes = python_logging.getLogger(_FAKE_TENSOR_LOGGER)
    level = fakes.level
    logging.set_verbosity_error()
    fakes.setLevel(python_logging.CRITICAL)
    try:
        with silence_progress(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        fakes.setLevel(level)
