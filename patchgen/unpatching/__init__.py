"""From patches that a running program has made to a modular file that says the same.

`capture` compares the live classes and functions with their files, `source` writes what they were
replaced by as text, `modular` makes a modular file of it, and `equal` holds that file's model
against the patched one in a process of its own.  `child` runs the user's command.  This package
runs the user's code, as nothing else of patchgen does; the converter still imports nothing.
"""

# `orig(self, x)` in a wrapper of a method is `self.SUPERforward(x)` in the patch file, and
# `super().forward(x)` in the modular file.
SUPER = "_patchgen_super_"
