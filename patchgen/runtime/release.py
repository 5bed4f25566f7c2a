"""Say that a variant runs under another release of transformers than it was made for.

In this process by `patchgen.project.release`; in an exported file by a function of its own, since
it is loaded without patchgen.
"""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import transformers

from patchgen.project.config import Config
from patchgen.project.files import Project
from patchgen.project.release import describe_another_release
from patchgen.runtime.variants import Variant


@functools.cache
def warn_of_another_release(variant: Variant) -> None:
    """Warn, once for a variant that was made for another release than is imported here."""
    env = Project(Config(Path(transformers.__file__).parents[1])).environment()
    message = describe_another_release(
        variant.path.name, variant.made_by, variant.parents, variant.made_from(), env
    )
    if message:
        warnings.warn(message, stacklevel=3)


def release_check(variant: Variant) -> str:
    """The end of an exported file: the same warning, without patchgen."""
    made_from = variant.made_from()
    parents = ""
    for module in variant.parents:
        file = module.partition(".")[2].replace(".", "/")
        parents += f'        "{file}.py": "{made_from.get(module, "")}",\n'
    return _CHECK.format(
        made_for=variant.transformers, name=variant.name, parent=variant.parent, parents=parents
    )


_CHECK = '''

# Added by `patchgen export`.
def _warn_of_another_release():
    """Warn where transformers is another release, and the files that this one was made from too."""
    import hashlib
    import pathlib
    import warnings

    import transformers

    if transformers.__version__ == "{made_for}":
        return
    folder = pathlib.Path(transformers.__file__).parent
    parents = {{
{parents}    }}
    for name, digest in parents.items():
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest()[:24] != digest:
            warnings.warn(
                "this code was made for transformers {made_for}, and this is "
                f"{{transformers.__version__}}, where its parent {parent} is another: it may "
                "compute something else. Install transformers {made_for}, or export it again under "
                "this release: `patchgen export {name}`",
                stacklevel=2,
            )
            return


_warn_of_another_release()
'''
