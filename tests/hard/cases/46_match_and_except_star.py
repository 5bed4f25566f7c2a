# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        match x:
            case {"a": [first, *rest], **others}:
                return first, rest, others
            case int(value) | float(value) if value > 3:
                return value
            case ToyBlock():
                return "block"
            case _:
                return None

    def group(self, x):
        try:
            raise ExceptionGroup("g", [ValueError(x), TypeError(x)])
        except* ValueError as error:
            self.last = str(error)
        except* TypeError:
            pass
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        match super().run(x):
            case (first, rest, others):
                return [first, *rest, others]
            case value:
                return value

    def group(self, x):
        super().group(x)
        return self.last
# --- probe
ToyBlock().run({"a": [1, 2, 3], "b": 4})
ToyBlock().run(5)
ToyBlock().run(1)
ToyBlock().run(ToyBlock())
ToyBlock().group(3)
