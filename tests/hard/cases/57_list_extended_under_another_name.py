# expect: R
# classes: NeoBlock
# --- modeling_toy.py
SIZES = [1]
VIEW = SIZES
VIEW += [2]
add = SIZES.append
add(3)
(HEIGHTS, WIDTHS), KINDS = ([4], [5]), {}
for sizes in (HEIGHTS, WIDTHS):
    sizes += [6]


class ToyBlock:
    def run(self):
        return [SIZES, HEIGHTS, WIDTHS]
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
