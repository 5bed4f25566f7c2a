"""A misspelt removal names the nearest member."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def get_input_embeddings(self):
        return 1
# --- modular
class C(P):
    def get_input_embedings(self):
        raise AttributeError("not needed")
# --- error
# modular.py:2:5: PG230 get_input_embedings is removed, but no class that C is merged with has it
#     hint: did you mean get_input_embeddings?
