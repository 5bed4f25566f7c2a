# expect: R
# --- other.py
import functools


@functools.cache
def made():
    return []


class Other:
    def other(self):
        return made()
# --- modeling_toy.py
import functools


@functools.cache
def made():
    return []


class ToyBlock:
    def own(self):
        return made()
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .other import Other


class NeoBlock(ToyBlock):
    pass


class NeoOther(Other):
    pass
