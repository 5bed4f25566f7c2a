"""What the base classes of transformers do to the classes below them."""

from __future__ import annotations

# Their `__init_subclass__` makes a dataclass of every class below them.
FIELD_BASES = frozenset({"PreTrainedConfig", "PretrainedConfig"})
# Classes below these are for users: nothing in a module has to mention them.
FOR_USERS = frozenset({"PreTrainedModel", "PreTrainedConfig", "PretrainedConfig", "ProcessorMixin"})
# What `torch.nn.Module` gives to the classes below it, of the releases of torch from 2.2 on.
MODULE_MEMBERS = frozenset(
    (
        "T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda"
        " double dump_patches eval extra_repr float forward get_buffer get_extra_state"
        " get_parameter get_submodule half ipu load_state_dict modules mtia named_buffers"
        " named_children named_modules named_parameters parameters register_backward_hook"
        " register_buffer register_forward_hook register_forward_pre_hook"
        " register_full_backward_hook register_full_backward_pre_hook"
        " register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module"
        " register_parameter register_state_dict_post_hook register_state_dict_pre_hook"
        " requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty"
        " train training type xpu zero_grad __call__ __setstate__ __getattr__"
        " _apply _backward_hooks _backward_pre_hooks _buffers _call_impl"
        " _compiled_call_impl _forward_hooks _forward_pre_hooks _get_backward_hooks"
        " _get_backward_pre_hooks _get_name _is_full_backward_hook _load_from_state_dict"
        " _load_state_dict_post_hooks _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook"
        " _modules _named_members _non_persistent_buffers_set _parameters"
        " _register_load_state_dict_pre_hook _register_state_dict_hook _replicate_for_data_parallel"
        " _save_to_state_dict _slow_forward _state_dict_hooks _state_dict_pre_hooks _version"
        " _wrapped_call_impl"
    ).split()
)
# Bases of transformers and torch that give a class no modules of their own.
WITHOUT_MODULES = frozenset(
    "PreTrainedModel GenerationMixin Module GradientCheckpointingLayer ABC object".split()
)
# Methods of modules that code calls which no class is derived from: FSDP, on a meta device.
CALLED_BY_NAME = frozenset({"reset_parameters"})
# What transformers sets on modules while a model is used, and a decorator on classes of experts.
SET_ON_MODULES = frozenset({"_gradient_checkpointing_func", "_apply_gate"})
# The tensors that modules of `torch.nn` have themselves; those of running statistics are buffers.
_BATCH = "weight bias running_mean running_var num_batches_tracked"
_GATES = "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0"
_CELL = "weight_ih weight_hh bias_ih bias_hh"
TENSORS = {
    **dict.fromkeys(["Linear", "Bilinear", "LayerNorm", "GroupNorm"], "weight bias"),
    **dict.fromkeys(["Conv1d", "Conv2d", "Conv3d"], "weight bias"),
    **dict.fromkeys(["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"], "weight bias"),
    **dict.fromkeys(["Embedding", "EmbeddingBag", "PReLU", "RMSNorm"], "weight"),
    **dict.fromkeys(["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"], _BATCH),
    **dict.fromkeys(["LSTM", "GRU", "RNN"], _GATES),
    **dict.fromkeys(["LSTMCell", "GRUCell", "RNNCell"], _CELL),
    "MultiheadAttention": "in_proj_weight in_proj_bias",
}
# Those that hold what they are given.
CONTAINERS = frozenset("ModuleList ModuleDict Sequential ParameterList ParameterDict".split())
