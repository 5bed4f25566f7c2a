"""Say that an output is used under another release of transformers than it was made for.

The code that calls a model comes from the installed release: `generate` may pass what a model of
another release does not take.  Where the parent's file is the same in both, the parent is called in
the same way, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchgen.project.lock import shorten
from patchgen.project.outcome import digest_of_file
from patchgen.project.versions import release_in, release_of
from patchgen.syntax.locate import Environment


def describe_another_release(
    output: str,
    made_by: str,
    parents: Sequence[str],
    made_from: Mapping[str, str],
    env: Environment,
) -> str:
    """What is to be said of the file `output`, or "" where it fits the release of `env`.

    `made_from` has the digests of the files of its `parents` as they were recorded.
    """
    made_for = release_in(made_by)
    here = release_of("transformers", env)
    # Nothing is known of an output without a record, or where transformers is not installed.
    if not made_for or made_for == here or not here:
        return ""
    for module in parents:
        digest = shorten(digest_of_file(env.path(module) or ""))
        if digest != made_from.get(module, ""):
            return (
                f"{output} was made for transformers {made_for}, and this is {here}, where its "
                f"parent {module} is another: it may compute something else. `patchgen convert` "
                "makes it for this release; where that is refused, `patchgen rebase` fits the "
                "modular file"
            )
    return ""
