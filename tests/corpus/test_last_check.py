"""The last check finds nothing in the files of transformers but what is truly wrong there.

Each file is checked as if patchgen had written it, with its relative imports made absolute.  KNOWN are
transformers' own mistakes: calls that would raise where they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import FlatFile, LineOrigin
from patchgen.syntax.errors import Location
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import RATCHET, find_package
from tests.corpus.test_releases import fetch

PACKAGE = find_package()

# Releases, and how many modeling and configuration files of PyTorch each has.
RELEASES = [
    ("4.53.3", 636),
    ("5.2.0", 813),
    ("5.9.0", 905),
    ("5.10.1", 926),
    ("5.17.0", 1004),
    ("5.24.0", 1083),
]
# Model, code and words of the message.
KNOWN = [
    # A global name with two underscores, which Python mangles in a class.
    *(
        (model, "PG402", "__HEAD_MASK_WARNING_MSG is bound by nothing")
        for model in ("longt5", "mt5", "switch_transformers", "t5")
    ),
    # A function with two parameters is called with three.
    ("deberta", "PG406", "build_relative_position"),
    # The model's methods have lost the parameters that the head passes.
    ("llava_onevision", "PG406", "pack_image_features has no parameter vision_feature_select"),
    ("got_ocr2", "PG406", "get_image_features has no parameter vision_feature"),
    ("bros", "PG406", "BrosAttention.forward misses the argument bbox_pos_emb"),
    # A cache is made without its configuration.
    (
        "nemotron_asr_streaming",
        "PG406",
        "RNNTDecoderCache of this release misses the argument config",
    ),
    ("nemotron3_5_asr", "PG406", "RNNTDecoderCache of this release misses the argument config"),
    # The method that makes a cache has got a parameter.
    ("janus", "PG406", "GenerationMixin._prepare_static_cache of this release misses the argument"),
    # Of Wav2Vec2's models one has the method; in these it is that of PEFT, which takes no force_load.
    *(
        (model, "PG406", "the call self.load_adapter(target_lang, force_load=True)")
        for model in ("hubert", "sew", "sew_d", "unispeech", "unispeech_sat", "wavlm")
    ),
    # Methods and modules that nothing defines.
    ("mlcd", "PG412", "MLCDVisionEmbeddings has no position_embedding"),
    ("moonshine", "PG412", "MoonshineEncoder has no _freeze_parameters"),
    ("moonshine_streaming", "PG412", "MoonshineStreamingEncoder has no _freeze_parameters"),
    ("mvp", "PG412", "MvpDecoderWrapper has no set_lightweight_tuning"),
    ("qwen3_omni_moe", "PG412", "Qwen3OmniMoeTalkerModel has no embed_tokens"),
    ("qwen3_omni_moe", "PG412", "Qwen3OmniMoeCode2WavTransformerModel has no embed_tokens"),
    ("timesfm2_5", "PG412", "TimesFm2_5ModelForPrediction has no horizon_ff_layer"),
    ("timesfm2_5", "PG412", "TimesFm2_5ModelForPrediction has no _timesfm_moving_average"),
    ("diffllama", "PG412", "DiffLlamaFlashAttention2 has no rotary_emb"),
    ("internvl", "PG412", "InternVLModel has no vision_model"),
    # Heads are pruned in an attention that cannot.
    ("clvp", "PG412", "ClvpSelfAttention has no prune_heads"),
    ("layoutlmv3", "PG412", "LayoutLMv3Attention has no prune_heads"),
    ("pix2struct", "PG412", "Pix2StructVisionAttention has no prune_heads"),
    ("timesformer", "PG412", "TimeSformerAttention has no prune_heads"),
]


@pytest.mark.skipif(PACKAGE is None, reason=f"transformers {RATCHET['release']} is not installed")
@pytest.mark.parametrize(
    "step", [pytest.param(16, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_installed_release(step: int) -> None:
    assert PACKAGE is not None
    paths = models_of(PACKAGE)
    assert len(paths) == 1064
    mistakes, false_alarms = check(paths[::step], PACKAGE.parent)
    assert not false_alarms
    assert len(mistakes) == 11 or step > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("release", "count"), RELEASES)
def test_another_release(release: str, count: int, tmp_path: Path) -> None:
    package = fetch(release, tmp_path)
    paths = models_of(package)
    assert len(paths) == count
    mistakes, false_alarms = check(paths, package.parent)
    assert mistakes and not false_alarms


def models_of(package: Path) -> list[Path]:
    """The modeling and configuration files of PyTorch, sorted."""
    found = [*package.glob("models/*/modeling_*.py"), *package.glob("models/*/configuration_*.py")]
    return sorted(
        path for path in found if not path.name.startswith(("modeling_tf_", "modeling_flax_"))
    )


def check(paths: Iterable[Path], root: Path) -> tuple[list[str], list[str]]:
    """What is found in files below `root`: transformers' own mistakes, and all else."""
    env = make_environment(root, search=[])
    mistakes: list[str] = []
    false_alarms: list[str] = []
    for path in paths:
        text = make_absolute(path.read_text(encoding="utf-8"), path.relative_to(root).parent.parts)
        lines = (LineOrigin(1, text.count("\n") + 1, path.name, 1),)
        file = FlatFile("modeling", path.name, text, map_lines=lambda lines=lines: lines)
        for problem in validate(file, (), env, {"": Location("none")}):
            # What upstream leaves unset itself is compared away by the parent, which is not given here.
            if problem.code == "PG421":
                continue
            is_known = any(
                path.parent.name == model and problem.code == code and words in problem.what
                for model, code, words in KNOWN
            )
            (mistakes if is_known else false_alarms).append(str(problem))
    return mistakes, false_alarms


def make_absolute(text: str, package: tuple[str, ...]) -> str:
    """`text` of a module in `package`, with absolute imports."""
    for dots in range(1, len(package) + 1):
        parent = ".".join(package[: len(package) - dots + 1])
        text = re.sub(rf"^( *from )\.{{{dots}}}(?=\w)", rf"\1{parent}.", text, flags=re.MULTILINE)
        text = re.sub(rf"^( *from )\.{{{dots}}}(?= )", rf"\1{parent}", text, flags=re.MULTILINE)
    return text
