"""Switches off the progress bars, log messages and warnings of transformers and torch."""

from __future__ import annotations

import logging as python_logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

# torch logs each error of a fake tensor with its traceback, and then raises it.
_FAKE_TENSOR_LOGGER = "torch._subclasses.fake_tensor"


def silence_process() -> None:
    """Show nothing of transformers but errors until the process ends."""
    logging.set_verbosity_error()


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Show neither progress bars nor warnings of transformers."""
    verbosity = logging.get_verbosity()
    has_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()


@contextmanager
def silence_models() -> Iterator[None]:
    """Also show no Python warnings, and no log of fake tensors that fail."""
    logger = python_logging.getLogger(_FAKE_TENSOR_LOGGER)
    level = logger.level
    logger.setLevel(python_logging.CRITICAL)
    try:
        with silence_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
