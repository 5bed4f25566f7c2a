"""The child's `auto_docstring` if it has one, else the parent's; never both."""
# --- bases
def auto_docstring(cls=None, **kwargs):
    return cls or (lambda cls: cls)
class Base:
    pass
# --- parent
@auto_docstring(
    custom_intro="""
    The parent.
    """
)
class G(Base):
    pass
@auto_docstring
class P(G):
    pass
# --- modular
# about C
@auto_docstring(custom_intro="The child.")
class C(P):
    pass
# --- flat
@auto_docstring(custom_intro="The child.")
class C(Base):
    pass
# --- probe
print(C.__name__)
