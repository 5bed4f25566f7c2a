# expect: E PG106 toypack/modular_toy_fast.py:1:16
# hint: under another name
# --- modular_toy_fast.py
class ToyBlock(ToyBlock):
    size = 2
