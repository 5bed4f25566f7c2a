"""What the rule about late imports takes for granted of torch."""

import subprocess
import sys

import pytest

from patchgen.compiler.link.late_imports import IMPORTED_BY_TORCH

pytest.importorskip("torch")


def test_torch_imports_these_modules_itself():
    assert sys.stdlib_module_names >= IMPORTED_BY_TORCH
    script = "import sys, torch; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) >= IMPORTED_BY_TORCH
