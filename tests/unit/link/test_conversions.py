"""The names that have a checkpoint conversion, read statically, and what registering them again does."""

import sys
import types
from pathlib import Path

import pytest

from patchgen.compiler.link.footer import (
    IMPORT,
    read_registered_names,
    render_registrations,
)


def test_a_text_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="keeps its conversions elsewhere"):
        read_registered_names("CONVERSIONS = {}")


@pytest.fixture
def conversions(monkeypatch):
    """transformers' own module, its tables as after import, before and after the test."""
    module = pytest.importorskip("transformers.conversion_mapping")
    monkeypatch.setattr(module, "USER_REGISTERED_MAPPINGS", set())
    monkeypatch.setattr(module, "_checkpoint_conversion_mapping_cache", None)
    return module


def test_every_name_of_the_installed_transformers_is_seen(conversions):
    text = Path(conversions.__file__).read_text(encoding="utf-8")
    assert read_registered_names(text) == conversions._build_checkpoint_conversion_mapping().keys()


def outside_transformers(module: types.ModuleType) -> types.ModuleType:
    """The same code in a module whose classes count as custom code."""
    copy = types.ModuleType(f"flat_{module.__name__.rpartition('.')[2]}")
    copy.__package__, copy.__file__ = module.__package__, module.__file__
    sys.modules[copy.__name__] = copy
    exec(
        compile(Path(module.__file__).read_text(encoding="utf-8"), module.__file__, "exec"),
        copy.__dict__,
    )
    return copy


def mixtral():
    from transformers import MixtralConfig
    from transformers.models.mixtral import modeling_mixtral

    config = MixtralConfig(
        vocab_size=31,
        hidden_size=16,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=2,
    )
    return modeling_mixtral, "MixtralForCausalLM", config, {"mixtral": "mixtral"}


def vit():
    from transformers import ViTConfig
    from transformers.models.vit import modeling_vit

    config = ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=16,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    return modeling_vit, "ViTForImageClassification", config, {"ViTModel": "ViTModel"}


def keys_saved(model, folder):
    from safetensors import safe_open

    model.save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "pt") as file:
        return sorted(file.keys())


@pytest.mark.parametrize("family", [mixtral, vit], ids=["by model type", "by class name"])
def test_a_registered_flat_module_loads_and_saves_what_its_parent_does(
    family, conversions, tmp_path
):
    import torch

    module, name, config, sources = family()
    parent, flat = getattr(module, name), getattr(outside_transformers(module), name)
    model = parent(config)
    keys = keys_saved(model, tmp_path / "parent")
    # Unregistered: this is the defect.
    _, report = flat.from_pretrained(tmp_path / "parent", output_loading_info=True)
    assert report["missing_keys"] and report["unexpected_keys"]
    assert keys_saved(flat(config), tmp_path / "defect") != keys

    for _ in range(2):  # a module may be executed again
        exec(f"{IMPORT}\n{render_registrations(sources.values(), sources)}", {})
        loaded, report = flat.from_pretrained(tmp_path / "parent", output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        for key, value in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[key], value), key
        assert keys_saved(loaded, tmp_path / "loaded") == keys
        assert keys_saved(flat(config), tmp_path / "fresh") == keys


def test_an_entry_that_the_user_registered_stays(conversions):
    conversions.register_checkpoint_conversion_mapping("mixtral", [], overwrite=True)
    exec(f"{IMPORT}\n{render_registrations({'mixtral'}, {'mixtral': 'mixtral'})}", {})
    assert conversions.get_checkpoint_conversion_mapping("mixtral") == []
