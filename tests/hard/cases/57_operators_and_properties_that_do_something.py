# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class Register:
    def __init__(self):
        self.asked = []

    def __getitem__(self, name):
        self.asked.append(name)
        return name

    def __or__(self, other):
        self.asked.append(other)
        return self

    @property
    def last(self):
        self.asked.append("last")
        return self.asked[-1]


REGISTER = Register()
FIRST = REGISTER["first"]
BOTH = REGISTER | 2
LAST = REGISTER.last


class ToyBlock:
    def run(self):
        return REGISTER.asked
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
