# reason: a name that the file imports cannot also be the class that derives from it
# --- parent toy/modeling_toy.py
class ToyA:
    size = 1
# --- modular toy/modular_toy_fast.py
from .modeling_toy import ToyA


class ToyA(ToyA):
    size = 2
# --- error
toy/modular_toy_fast.py:4:12: PG106 the base ToyA has the name of the class, and a name means one thing in a file
    hint: import the parent under another name: `import ToyA as ToyAParent`
