"""Convert modular files of an installed transformers and compare with the outputs that lie beside them.

    python tests/corpus/compare.py [--root PACKAGE] [--lines N] [NAME...]

Parents are read from disk, as a check does.  NAME is a model (`gemma`); without one, all.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib.util
import resource
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from patchgen.syntax.errors import PatchgenError
from patchgen.upstream.convert import convert
from patchgen.upstream.style import style


def main() -> int:
    """Print every output that differs, and totals by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--lines", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="no tracebacks")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    gc.disable()
    root = options.root or Path(importlib.util.find_spec("transformers").origin).parent
    paths = sorted((root / "models").glob("*/modular_*.py"))
    if options.names:
        paths = [path for path in paths if path.stem.removeprefix("modular_") in options.names]
    texts, failed = convert_all(root, paths, options.quick)
    start = time.process_time()
    styled = style(texts)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"style {time.process_time() - start + children.ru_utime + children.ru_stime:.2f} s")
    expected = {
        file.relative_to(root).as_posix(): file.read_text(encoding="utf-8")
        for path in paths
        for file in sorted(path.parent.glob("*.py"))
        if f"automatically generated from src/transformers/models/{path.parent.name}/{path.name}."
        in "".join(file.open(encoding="utf-8").readlines()[:3])
    }
    right, total = Counter(), Counter()
    for name, want in expected.items():
        kind = name.rpartition("/")[2].removesuffix(".py")
        kind = next((k for k in _KINDS if kind.startswith(f"{k}_")), "?")
        total[kind] += 1
        have = styled.texts.get(name, "")
        if have == want:
            right[kind] += 1
        else:
            show(name, have, want, options.lines)
    for extra in sorted(styled.texts.keys() - expected.keys()):
        print(f"== {extra}: nobody expects it")
    for kind in total:
        print(f"{kind:24} {right[kind]:4} of {total[kind]:4}")
    print(f"{'all':24} {right.total():4} of {total.total():4}, {failed} modular files failed")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0 if right == total and not failed else 1


_KINDS = (
    "image_processing_pil", "image_processing", "video_processing", "feature_extraction", "modeling", "configuration",
    "tokenization", "processing",
)  # fmt: skip


def convert_all(root: Path, paths: list[Path], quick: bool) -> tuple[dict[str, str], int]:
    """The unformatted outputs by path, and how many files failed."""
    read_before: dict[Path, str | None] = {}

    def read(path: Path) -> str | None:
        if path not in read_before:
            read_before[path] = path.read_text(encoding="utf-8") if path.is_file() else None
        return read_before[path]

    texts: dict[str, str] = {}
    failed = 0
    start = time.process_time()
    for path in paths:
        try:
            for output in convert(path, read):
                name = path.name.replace("modular", output.kind, 1)
                texts[(path.parent / name).relative_to(root).as_posix()] = output.text
        except PatchgenError as error:
            failed += 1
            print(error)
        except Exception:
            failed += 1
            print(f"== {path.name}: {traceback.format_exc(limit=-1 if quick else -6)}")
    print(f"convert {time.process_time() - start:.2f} s")
    return texts, failed


def show(name: str, have: str, want: str, lines: int) -> None:
    """The first lines of what differs: `-` is checked in, `+` is ours."""
    print(f"== {name}")
    diff = difflib.unified_diff(want.split("\n"), have.split("\n"), lineterm="", n=1)
    for number, line in enumerate(diff):
        if number >= lines + 2:
            break
        if number >= 2:
            print(f"    {line[:150]}")


if __name__ == "__main__":
    sys.exit(main())
