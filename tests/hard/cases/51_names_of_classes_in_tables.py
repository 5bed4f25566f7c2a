# expect: R
# classes: NeoModel
# renames: Toy > Neo
# --- modeling_toy.py
class ToyConfig:
    model_type = "toy"


class ToyBlock:
    pass


class ToyModel:
    config_class = ToyConfig
    base_model_prefix = "model"
    _no_split_modules = ["ToyBlock"]
    _can_record_outputs = {"hidden_states": ToyBlock, "attentions": "ToyBlock"}
    _tp_plan = {"layers.*.ToyBlock": "colwise"}

    def run(self):
        return list(self._no_split_modules)
# --- modular_neo.py
from .modeling_toy import ToyModel


class NeoModel(ToyModel):
    size = 2
# --- probe
[name.replace("Toy", "Neo") for name in NeoModel().run()]
[name.replace("Toy", "Neo") for name in NeoModel._no_split_modules]
NeoModel._can_record_outputs["hidden_states"].__name__.replace("Toy", "Neo")
NeoModel._can_record_outputs["attentions"].replace("Toy", "Neo")
NeoModel.base_model_prefix
