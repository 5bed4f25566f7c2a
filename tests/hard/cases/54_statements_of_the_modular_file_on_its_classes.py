# expect: E PG100 toypack/modular_neo.py:16:1
# hint: assign a value to a plain name or an item of it, such as TABLE = {**parent.TABLE, ...}
# --- modeling_toy.py
class ToyBlock:
    pass
# --- modular_neo.py
from .modeling_toy import ToyBlock

LOG = []
_first = LOG.append("first")


class NeoBlock(ToyBlock):
    def run(self):
        return LOG, self.kind


class NeoOther:
    pass


for _each in (NeoBlock, NeoOther):
    _each.kind = _each.__name__.lower()
    LOG.append(_each.kind)
