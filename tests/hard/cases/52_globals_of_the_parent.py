# expect: E PG100 toypack/modeling_toy.py:9:5
# hint: keep the value in an object that is changed, such as a dictionary
# --- modeling_toy.py
import logging

logger = logging.getLogger(__name__)
_COUNT = 0
_CACHE = {}


def count():
    global _COUNT
    _COUNT += 1
    return _COUNT


def __getattr__(name):
    if name == "lazy":
        return 3
    raise AttributeError(name)


class ToyBlock:
    def run(self, x):
        logger.debug("run")
        _CACHE[x] = count()
        return dict(_CACHE)
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(x + 1), _extra(x)


_TABLE = {1: "one"}


def _extra(x):
    return _TABLE.get(x)
