"""What transformers calls models, their classes and files, and how it renames a model's text.

    llama -> sam2_video       LlamaMLP -> Sam2VideoMLP, LLAMA_DOCS -> SAM2_VIDEO_DOCS

In: the table of configuration classes of `models/auto`, and two lower names.  Out: a `Renaming`,
which rewrites identifiers, strings and comments by prefix.  A match needs a left boundary but no
right one, so that `sample` becomes `sam2ple` in sam2.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from patchgen.upstream.tokens import has_fstring, rewrite

# What the file name of an output begins with.
KINDS = (
    "modeling",
    "configuration",
    "tokenization",
    "processing",
    "image_processing_pil",
    "image_processing",
    "video_processing",
    "feature_extraction",
)
_KIND_OF_SUFFIX = {
    "Config": "configuration",
    "Tokenizer": "tokenization",
    "Processor": "processing",
    "ImageProcessor": "image_processing",
    "ImageProcessorPil": "image_processing_pil",
    "ImageProcessorKwargs": "image_processing",
    "VideoProcessor": "video_processing",
    "VideoProcessorKwargs": "video_processing",
    "VideoProcessorInitKwargs": "video_processing",
    "FeatureExtractor": "feature_extraction",
    "ProcessorKwargs": "processing",
    "VideosKwargs": "processing",
    "ImagesKwargs": "processing",
    "TextKwargs": "processing",
}
# The left-most match is the longest suffix.
_SUFFIX = re.compile(f"({'|'.join(_KIND_OF_SUFFIX)})$")
KIND_OF_FILE = re.compile(f"({'|'.join(KINDS)})_")
# Names of a package outside transformers, and what transformers calls after them (jamba, zamba2,
# nemotron_h).
_NEVER = frozenset(
    (
        "mamba_ssm mamba-ssm use_mambapy mamba_inner_fn "
        "mamba_selective_state_update mamba_selective_scan"
        " is_mambapy_available mamba2_split_conv1d_scan_combined "
        "mamba2_selective_state_update mamba2_chunk_scan"
    ).split()
)
_COPIED = "# Copied from"
# What makes the plain substitution inexact: imports that stay as they are, and comments that go.
_NEEDS_TOKENS = re.compile(r"^[ \t]*(?:import[ \t]|from[ \t]+[^\W\d])|# Copied from", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NameTable:
    """Model types with their configuration classes, in the order of transformers' own table."""

    config_of: Mapping[str, str]
    type_of: Mapping[str, str]

    def cased(self, lower: str) -> str:
        """`qwen2_5_vl` -> `Qwen2_5_VL`; a name outside the table is title-cased piece by piece."""
        config = self.config_of.get(lower) or self.config_of.get(lower.replace("_", "-"))
        if config:
            return config.replace("Config", "")
        return "".join(piece.title() for piece in lower.split("_"))

    def lower(self, cased: str) -> str:
        """`Qwen2_5_VL` -> `qwen2_5_vl`.

        Outside the table every capital begins a piece (`a_x_k2_gate`, axk2).
        """
        # A new model is in no table yet.
        pieces = "_".join(re.findall(r"[A-Z][^A-Z]*", cased)).lower()
        return self.type_of.get(f"{cased}Config", pieces)


def make_table(entries: Iterable[tuple[str, str]]) -> NameTable:
    """The table of `entries`; of several model types with one class the last counts."""
    config_of = dict(entries)
    return NameTable(config_of, {config: model_type for model_type, config in config_of.items()})


def read_table(mappings: str, configuration: str) -> NameTable:
    """The table in `auto_mappings.py` and `configuration_auto.py` of one transformers."""
    first: list[tuple[str, str]] = []
    entries: list[tuple[str, str]] = []
    for statement in (*ast.parse(mappings).body, *ast.parse(configuration).body):
        match statement:
            case ast.Assign(targets=[ast.Name("CONFIG_MAPPING_NAMES")], value=ast.Call() as call):
                # `OrderedDict(**{"gpt-sw3": ...}, **CONFIG_MAPPING_NAMES)` puts its entry in front.
                (first if entries else entries).extend(_pairs(call))
            case ast.Expr(
                ast.Call(
                    func=ast.Attribute(ast.Name("CONFIG_MAPPING_NAMES"), "update"),
                    args=[ast.Dict()],
                ) as call
            ):
                entries.extend(_pairs(call))
    return make_table([*first, *entries])


def _pairs(call: ast.Call) -> list[tuple[str, str]]:
    """The model types and classes that a table lists, as tuples or as a dictionary."""
    pairs = []
    for node in ast.walk(call):
        match node:
            case ast.Tuple(elts=[ast.Constant(str(key)), ast.Constant(str(value))]):
                pairs.append((key, value))
            case ast.Dict(keys=keys, values=values):
                for name, entry in zip(keys, values, strict=True):
                    if isinstance(name, ast.Constant) and isinstance(entry, ast.Constant):
                        pairs.append((str(name.value), str(entry.value)))
    return pairs


class Renaming:
    """A renaming of one lower name to another, over text.

    Between equal names it changes only comments.
    """

    def __init__(self, old: str, new: str, table: NameTable) -> None:
        self.old = old.replace("-", "_")
        self.new = new.replace("-", "_")
        self._cased = table.cased(self.new)
        upper = self.new.upper()
        # The three ways in which transformers writes a model's name.
        self._spellings = {
            self.old: self.new,
            self.old.upper(): upper,
            table.cased(self.old): self._cased,
        }
        # One entry fewer where the cased name is all capitals (CLIP): then the next character
        # decides (x_clip).
        self._upper = upper if len(self._spellings) == 2 else None
        self._needles = tuple({spelling.lower() for spelling in self._spellings})
        never = " ".join(_NEVER)
        self._is_delicate = any(needle in never for needle in self._needles)
        spelled = "|".join(map(re.escape, self._spellings))
        self._pattern = re.compile(rf"(?<![a-z0-9])({spelled})(.|\Z)", re.IGNORECASE | re.DOTALL)
        self._names: dict[str, str] = {}

    def apply(self, text: str) -> str:
        """`text` with identifiers, strings and comments renamed, without `# Copied from`
        comments.
        """
        touched = self._touches(text)
        if not touched and _COPIED not in text:
            return text
        # Whether parts of it may have to stay as they are, or to go.
        has_exceptions = self._is_delicate or has_fstring(text) or _NEEDS_TOKENS.search(text)
        # Where it gives the same, one substitution over the whole text takes less time.
        if touched and not has_exceptions:
            return self._pattern.sub(self._replacement, text)
        return rewrite(text, self.name, self._token, self._comment)

    def docs(self, text: str) -> str:
        """`text` with strings and comments renamed."""
        return rewrite(text, None, self._token, self._token) if self._touches(text) else text

    def name(self, name: str) -> str:
        """One identifier, renamed."""
        # A file names the same identifiers again and again.
        renamed = self._names.get(name)
        if renamed is None:
            renamed = self._names[name] = self._token(name) if self._touches(name) else name
        return renamed

    def _touches(self, text: str) -> bool:
        # A search for plain text is much faster than the pattern, and most texts have no match.
        lowered = text.lower()
        return any(needle in lowered for needle in self._needles)

    def _token(self, token: str) -> str:
        is_kept = token.strip('"') in _NEVER
        return token if is_kept else self._pattern.sub(self._replacement, token)

    def _comment(self, token: str) -> str:
        return "" if _COPIED in token else self._token(token)

    def _replacement(self, match: re.Match[str]) -> str:
        """What a match becomes; the character behind it decides about capitals."""
        spelling, following = match.groups()
        if self._upper is not None and spelling.isupper() and not following.isalpha():
            return self._upper + following
        return self._spellings.get(spelling, self._cased) + following


def kind_of(name: str, cased: str) -> str:
    """The kind of file into which class `name` of model `cased` goes.

    `Sam2VideoProcessor` of Sam2Video is a processor, not of videos.
    """
    # The model's own name may end as a kind does.
    match = _SUFFIX.search(name.replace(cased, ""))
    return _KIND_OF_SUFFIX[match[1]] if match else "modeling"


def common_suffix(first: str, second: str) -> str:
    """The longest common suffix; empty where one name is the suffix of the other."""
    # A common ending is a common beginning of the reversed names.
    suffix = os.path.commonprefix((first[::-1], second[::-1]))[::-1]
    return "" if suffix in (first, second) else suffix


def prefix_of(name: str, parent: str, cased: str, cased_parent: str) -> str:
    """What replaces the parent's model name in class `name`, which derives from `parent`.

    class Dots3NoteTextMLP(DeepseekV3MLP)      DeepseekV3 -> Dots3NoteText, in dots3_note
    """
    suffix = common_suffix(name, parent)
    if suffix[:1].isupper():
        prefix = name.replace(suffix, "")
        # DETR in both names: the suffix eats into the model's name (conditional_detr).
        return cased if len(prefix) < len(cased) and cased in name else prefix
    return cased + cased_parent if name.replace(cased, "") == parent else cased


def choose(prefixes: Iterable[str], cased: str) -> str:
    """The most frequent of `prefixes`.

    Of equally frequent ones it is `cased`, or else the last one.
    """
    ranking = Counter(prefixes).most_common()
    tied = [prefix for prefix, count in ranking if count == ranking[0][1]]
    return cased if not tied or cased in tied else tied[-1]


def without_collision(prefix: str, cased: str, cased_parent: str, parent_text: str) -> str:
    """`prefix`, or `cased` where the parent file has classes with that prefix already (janus)."""
    parent_prefix = prefix.replace(cased, cased_parent)
    has_collision = prefix != cased and f"\nclass {parent_prefix}" in parent_text
    return cased if has_collision else prefix
