"""`patchgen.load`: a checkpoint in a variant, by its name or by the parts that it is to have.

    patchgen.load("Qwen/Qwen3-0.6B", parts="fast")       # written, flattened and kept, at first
    patchgen.load("llama_loss", "meta-llama/Llama-3.2-1B")    # one of the project, or the gallery

What is written for `parts` is what `patchgen new MODEL --with PARTS` gives, and `patchgen convert`
makes of it.  It stands in the user's cache, in a folder for the model, the parts and the releases.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

import patchgen
from patchgen import disk
from patchgen.author.declare.request import Answer, answer, names_of, require_parts
from patchgen.author.declare.variant import flatten_draft
from patchgen.author.modular_text import format_modular
from patchgen.author.published import find_type
from patchgen.compiler.settings import Settings
from patchgen.project.places import private_folder
from patchgen.project.versions import release_of
from patchgen.runtime.load import load_into, read_configuration
from patchgen.runtime.variants import Variant, find_variant
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import Environment, make_environment
from patchgen.syntax.shown import shown

# What outputs in the cache are imported from.  It has no `__init__.py`, so several folders have it.
PACKAGE = "patchgen_models"
SHARED = Path(__file__).parent / "parts"  # what modular files take from there is in the outputs

Checkpoint = str | os.PathLike[str]


def load(
    *names: Checkpoint,
    parts: str | Sequence[str] = (),
    head: str | None = None,
    verify: bool = False,
    **kwargs: Any,
) -> PreTrainedModel:
    """Load a checkpoint (a folder, or an id on the Hub) into a variant.

    `load(checkpoint, parts="fast")`: the variant of the checkpoint's model that has these parts, a
    list or a text with commas; with `verify` it is proven equal to its parent first, which takes
    seconds.  `load(variant, checkpoint)`: one of the project or of the gallery, by name.

    The class is the one that `architectures` of the checkpoint's configuration names, or `head`,
    such as "LlamaForSequenceClassification".  `kwargs` are those of `from_pretrained`.

    Raises ValueError where there is no such variant or class, where no part fits, and for a
    checkpoint of another kind of model, which `from_pretrained` would take with a warning.
    """
    wanted = names_of(parts)
    if len(names) != (1 if wanted else 2):
        raise TypeError("load takes a variant and a checkpoint, or a checkpoint and parts=")
    checkpoint = names[-1]
    if not wanted:
        return load_into(find_variant(str(names[0])), checkpoint, head, kwargs)
    kind = read_configuration(checkpoint, kwargs).get("model_type")
    try:
        variant = write_variant(str(kind), wanted, verify=verify)
    except PatchgenError as error:
        raise ValueError(str(error)) from error
    return load_into(variant, checkpoint, head, kwargs)


def write_variant(kind: str, parts: Sequence[str], *, verify: bool = False) -> Variant:
    """The variant of the model type `kind` with `parts`, in the user's cache.

    Nothing is written where it is there.  Raises PatchgenError as `patchgen new` does.
    """
    package = importlib.util.find_spec("transformers")
    assert package is not None and package.origin is not None
    # The release that is imported, wherever the path has others.
    env = make_environment(Path.cwd(), Path(package.origin).parents[1])
    reply = answer(env, find_type(env, kind), parts)
    require_parts(reply, kind)
    home = private_folder("models") / _key(reply, env)
    draft = reply.draft
    name = f"{draft.alias}_{draft.ending}"
    output = home / PACKAGE / draft.alias / f"modeling_{name}.py"
    if not output.is_file():
        _write(reply, home)
        for part in reply.left_out:
            _say(f"{name} is without {part.part}: {part.why_left_out}")
        _say(f"{name} is {output}")
    if verify:
        _prove(reply)
    module = f"{PACKAGE}.{draft.alias}.{output.stem}"
    return Variant(name, module, output, home, draft.place.as_posix())


def _say(text: str) -> None:
    print(shown(f"patchgen: {text}"), file=sys.stderr)


def _key(reply: Answer, env: Environment) -> str:
    """The name of a folder for all that an output depends on."""
    releases = (patchgen.__version__, release_of("transformers", env))
    shared = [disk.text_of(path) for path in sorted(SHARED.rglob("*.py"))]
    text = "\n".join([*releases, reply.text, reply.module.source.text, *shared])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(reply: Answer, home: Path) -> None:
    """Write the modular file and its outputs, the modeling file last: where it is, all are."""
    disk.make_private(home)
    flat = flatten_draft(reply.draft, home)
    disk.write(home / reply.draft.place, format_modular(reply.text, Settings()), home)
    files = sorted(flat.files, key=lambda file: file.kind == "modeling")
    for file in files:
        disk.write(home / PACKAGE / reply.draft.alias / file.name, file.text, home)


def _prove(reply: Answer) -> None:
    """Raise ValueError where the variant is not shown to be equal to its parent."""
    from patchgen.author.proof import prove

    with disk.scratch() as folder:
        proof = prove(reply.draft, folder)
    if proof.status != "verified":
        raise ValueError(f"{reply.module.alias}_{reply.ending} is not verified: {proof.why}")
    if proof.unreached:
        _say(
            f"not verified: no class that was tried runs layers of {' and '.join(proof.unreached)}"
        )
