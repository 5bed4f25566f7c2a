"""Copy into the PIL image processor what it would import from the torchvision one.

It then loads without torchvision.  In: the imports that its file would have, and both bodies.  Out:
the body with copies of the definitions that it would import.
"""

from __future__ import annotations

import re

from patchgen.upstream.emission import Body

_IMPORT = re.compile(
    r"^from \.image_processing_(?!pil_|backends|utils|outputs)\w+ import ([^\n#]+)", re.MULTILINE
)
_DEFINITION = re.compile(r"(?:\s*\n|#[^\n]*\n)*(?:@|class\b|def\b|async\b)")


def with_copies(imaging: Body, image: Body, imports: str) -> Body:
    """`imaging` with copies of what `imports` takes from `image`, each at the index it has there.

    A copy stands before the definition at that index, or after it if that is a value
    (conditional_detr).
    """
    # What the other file does not define stays an import.
    wanted: list[str] = []
    for names in _IMPORT.findall(imports):
        wanted += [name for name in re.split(r"[,\s]+", names) if name in image]
    pieces = list(zip(imaging.names, imaging.pieces, strict=True))
    theirs = dict(zip(image.names, image.pieces, strict=True))
    for name in wanted:
        index = image.names.index(name)
        is_before_value = index < len(pieces) and not _DEFINITION.match(pieces[index][1].text)
        place = index + 1 if is_before_value else index
        pieces.insert(place, (name, theirs[name]))
    copied = Body()
    for name, piece in pieces:
        copied.place(name, piece)
    return copied
