"""New statements take the indentation of their place; strings stay as they are."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        for i in range(2):
            if x:
                text = "old"
            else: text = "none"
        return text
# --- modular
from patchgen.edits import edit, new, old
class C(P):
  @edit("forward")
  def longer(self, text):
      with old:
          text = "old"
      with new:
          text = """new
  as it is
"""
          if text:
              text += (
                  "."
              )
# --- flat
class C(Base):
    def forward(self, x):
        for i in range(2):
            if x:
                text = """new
  as it is
"""
                if text:
                    text += (
                        "."
                    )
            else: text = "none"
        return text
