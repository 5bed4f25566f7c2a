"""Run the user's command until its model first runs forward, and record what it has patched.

    python -m patchgen.unpatching.child FOLDER FLAGS train.py --lr 1e-4

The process ends there: nothing of the training is done.  A model that was built and never run is
recorded at the end of the program.  `FOLDER/captured.json` has what was found, and with the flag
`observe` the folder has what the patched model computes.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from torch import nn
from torch.nn.modules import module as hooks

from patchgen import disk
from patchgen.unpatching.capture import capture, own_module
from patchgen.unpatching.source import pieces_of
from patchgen.unpatching.values import is_folder_of_user, note_compiled


def record(model: nn.Module | None, folder: Path, error: str = "", observe: bool = False) -> None:
    """Write what differs from the files into `folder`."""
    import transformers

    differences = capture(model)
    pieces, assigned, why_not = pieces_of(differences)
    listed = []
    for number, patch in enumerate(differences):
        why = why_not.get(number, patch.why_not)
        listed.append({**vars(patch), "why_not": why})
        del listed[-1]["value"]
    data: dict[str, Any] = {
        "model": type(model).__name__ if model is not None else "",
        "module": own_module(model),
        "error": error,
        "version": transformers.__version__,
        "root": str(Path(transformers.__file__).parents[1]),
        "folders": [folder for folder in sys.path if not is_folder_of_user(Path(folder))],
        "differences": listed,
        "pieces": [dataclasses.asdict(piece) for piece in pieces],
        "assigned": [dataclasses.asdict(assignment) for assignment in assigned],
    }
    if observe and data["module"] and assigned:
        from patchgen.unpatching.equal import observe_patched

        assert model is not None
        data["not_observed"] = observe_patched(model, differences, folder)
    # Last: the file says that all of it is there.
    disk.fill(folder, {"captured.json": json.dumps(data)})


class _Run:
    """One run of the user's program, which ends at the first forward of a model."""

    def __init__(self, folder: Path, observe: bool) -> None:
        self.folder = folder
        self.observe = observe
        self.built: nn.Module | None = None
        self.handles = [
            hooks.register_module_forward_pre_hook(self._before_forward),
            hooks.register_module_module_registration_hook(self._at_registration),
        ]

    def _before_forward(self, module: nn.Module, _args: Any) -> None:
        # What wraps a model runs first: DDP, PEFT, torch.compile.
        model = next(filter(_is_pretrained, module.modules()), None)
        if model is not None:
            self.end(model, "")

    def _at_registration(self, module: nn.Module, _name: str, _inner: Any) -> None:
        if _is_pretrained(module):
            self.built = module

    def end(self, model: nn.Module | None, error: str) -> None:
        """Record, and end the process without what the program would do at its exit."""
        for handle in self.handles:
            handle.remove()
        code = 0
        try:
            record(model, self.folder, error, self.observe)
        except BaseException:  # the user's program must not catch it and go on
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _is_pretrained(module: Any) -> bool:
    modeling_utils = sys.modules.get("transformers.modeling_utils")
    return modeling_utils is not None and isinstance(module, modeling_utils.PreTrainedModel)


def _load(command: list[str]) -> tuple[CodeType, ModuleType, list[str]]:
    """The code that Python would run as `__main__`, its module, and `sys.argv`."""
    main = ModuleType("__main__")
    if command[0] == "-m":
        name = command[1]
        sys.path.insert(0, os.getcwd())
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
        if spec is None or spec.loader is None or spec.origin is None:
            raise SystemExit(f"No module named {name}")
        main.__spec__ = spec
        main.__package__ = spec.parent
        path = spec.origin
        arguments = command[2:]
    else:
        path = command[0]
        arguments = command[1:]
        sys.path.insert(0, str(Path(path).resolve().parent))
    code = compile(disk.read_bytes(path), path, "exec")
    main.__file__ = path
    return code, main, [path, *arguments]


def main() -> None:
    """Run `sys.argv`: the folder, flags with commas between, and the user's command."""
    folder, flags, *command = sys.argv[1:]
    run = _Run(Path(folder), "observe" in flags.split(","))
    error = ""
    try:
        code, module, sys.argv = _load(command)
        sys.addaudithook(note_compiled)
        kept = sys.modules["__main__"]
        sys.modules["__main__"] = module
        exec(code, vars(module))
        del kept
    except SystemExit as stopped:
        error = f"it ended with {stopped.code!r}" if stopped.code else ""
    except Exception as failure:  # whatever the user's program raises
        traceback.print_exc()
        error = f"{type(failure).__name__}: {failure}"
    run.end(run.built, error)


if __name__ == "__main__":
    main()
