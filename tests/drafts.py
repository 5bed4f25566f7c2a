"""What `patchgen new` writes, flattened and imported: a class of the variant beside its parent's."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from patchgen.author.declare.request import answer
from patchgen.author.declare.variant import flatten_draft
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.locate import make_environment
from patchgen.verifying.models.build import draw_weights


def both_classes(model: str, part: str, head: str, home: Path) -> tuple[Any, Any]:
    """The class `head` of the parent and of what the part makes of it, in the empty folder `home`."""
    reply = answer(make_environment(Path.cwd()), model, part.split(","))
    home.mkdir(exist_ok=True)
    flat = flatten_draft(reply.draft, home)
    for file in flat.files:
        (home / file.name).write_text(file.text)
    name = next(file.name for file in flat.files if file.kind == "modeling")
    spec = importlib.util.spec_from_file_location(f"drafts_{home.name}_{name[:-3]}", home / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    parent = importlib.import_module(reply.module.name)
    return getattr(parent, head), getattr(module, head)


def tiny(model_class: Any, attention: str = "sdpa", **changes: Any) -> Any:
    """A tiny model in eval mode; those of one configuration have equal weights."""
    known = {n: v for n, v in changes.items() if hasattr(model_class.config_class(), n)}
    config = tiny_config(model_class.config_class, **known)
    model = model_class._from_config(config, attn_implementation=attention)
    draw_weights(model)
    return model.eval()
