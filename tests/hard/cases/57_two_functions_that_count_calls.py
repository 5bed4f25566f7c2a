# expect: R
# --- other.py
def step():
    step.calls = getattr(step, "calls", 0) + 1
    return step.calls


class Other:
    def other(self):
        return step()
# --- modeling_toy.py
def step():
    step.calls = getattr(step, "calls", 0) + 1
    return step.calls


class ToyBlock:
    def own(self):
        return step()
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .other import Other


class NeoBlock(ToyBlock):
    pass


class NeoOther(Other):
    pass
