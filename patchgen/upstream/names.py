"""Rename one model's text to another's.

    llama -> sam2_video       LlamaMLP -> Sam2VideoMLP, LLAMA_DOCS -> SAM2_VIDEO_DOCS

In: the table of configuration classes of `models/auto`, and two lower names.  Out: a `Renaming`,
which rewrites identifiers, strings and comments by prefix.  A match needs a left boundary but no
right one, so that `sample` becomes `sam2ple` in sam2.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from patchgen.upstream.tokens import has_fstring, rewrite

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
        model_type = self.type_of.get(f"{cased}Config")
        if model_type is None:
            # A new model is in no table yet.
            model_type = "_".join(re.findall(r"[A-Z][^A-Z]*", cased)).lower()
        return model_type


def make_table(entries: Iterable[tuple[str, str]]) -> NameTable:
    """The table of `entries`; of several model types with one class the last counts."""
    config_of = dict(entries)
    return NameTable(config_of, {config: model_type for model_type, config in config_of.items()})


def read_table(mappings: str, configuration: str) -> NameTable:
    """The table in `auto_mappings.py` and `configuration_auto.py` of one transformers."""
    first: list[tuple[str, str]] = []
    entries: list[tuple[str, str]] = []
    for tree in (ast.parse(mappings), ast.parse(configuration)):
        for statement in tree.body:
            match statement:
                case ast.Assign(
                    targets=[ast.Name("CONFIG_MAPPING_NAMES")], value=ast.Call() as call
                ):
                    found = _pairs(call)
                    # `OrderedDict(**{"gpt-sw3": ...}, **CONFIG_MAPPING_NAMES)` puts its entry in
                    # front.
                    (first if entries else entries).extend(found)
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
    pairs: list[tuple[str, str]] = []
    for node in ast.walk(call):
        match node:
            case ast.Tuple(elts=[ast.Constant(str(key)), ast.Constant(str(value))]):
                pairs.append((key, value))
            case ast.Dict():
                for key_node, value_node in zip(node.keys, node.values, strict=True):
                    if isinstance(key_node, ast.Constant) and isinstance(value_node, ast.Constant):
                        pairs.append((str(key_node.value), str(value_node.value)))
    return pairs


class Renaming:
    """A renaming of one lower name to another, over text.

    Between equal names it changes only comments.
    """

    def __init__(self, old: str, new: str, table: NameTable) -> None:
        old, new = old.replace("-", "_"), new.replace("-", "_")
        cased_new = table.cased(new)
        # The three ways in which transformers writes a model's name.
        spellings = {old: new, old.upper(): new.upper(), table.cased(old): cased_new}
        self.old, self.new = old, new
        self._spellings = spellings
        self._cased = cased_new
        # One entry fewer where the cased name is all capitals (CLIP): then the next character
        # decides (x_clip).
        self._upper = new.upper() if len(spellings) == 2 else None
        self._needles = tuple({key.lower() for key in spellings})
        self._is_delicate = any(needle in kept for needle in self._needles for kept in _NEVER)
        keys = "|".join(re.escape(key) for key in spellings)
        self._pattern = re.compile(rf"(?<![a-z0-9])({keys})(.|\Z)", re.IGNORECASE | re.DOTALL)
        self._names: dict[str, str] = {}

    def apply(self, text: str) -> str:
        """`text` with identifiers, strings and comments renamed, without `# Copied from`
        comments.
        """
        touched = self._touches(text)
        if not touched and _COPIED not in text:
            return text
        # Where it gives the same, one substitution over the whole text takes less time.
        if touched and not self._has_exceptions(text):
            return self._sub(text)
        return rewrite(text, self.name, self._token, self._comment)

    def _has_exceptions(self, text: str) -> bool:
        """Whether parts of `text` may have to stay as they are, or to go."""
        if self._is_delicate or has_fstring(text):
            return True
        return _NEEDS_TOKENS.search(text) is not None

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

    def names(self, names: Iterable[str]) -> frozenset[str]:
        """Every identifier of `names`, renamed."""
        return frozenset(map(self.name, names))

    def _touches(self, text: str) -> bool:
        # A search for plain text is much faster than the pattern, and most texts have no match.
        lowered = text.lower()
        return any(needle in lowered for needle in self._needles)

    def _token(self, token: str) -> str:
        return token if token.strip('"') in _NEVER else self._sub(token)

    def _comment(self, token: str) -> str:
        return "" if _COPIED in token else self._token(token)

    def _sub(self, text: str) -> str:
        return self._pattern.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        """What a match becomes; the character behind it decides about capitals."""
        spelling, following = match.groups()
        if self._upper is not None and spelling.isupper() and not following.isalpha():
            return self._upper + following
        return self._spellings.get(spelling, self._cased) + following
