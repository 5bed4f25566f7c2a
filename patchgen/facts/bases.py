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
# Methods of modules that code calls which no class is derived from: FSDP, on a meta device.
CALLED_BY_NAME = frozenset({"reset_parameters"})
# What transformers sets on modules while a model is used.
SET_ON_MODULES = frozenset({"_gradient_checkpointing_func"})
# The modules of `torch.nn` whose parameters `PreTrainedModel._init_weights` sets, and others with
# parameters.
SET_BY_DEFAULT = frozenset(
    (
        "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d LSTM Embedding"
        " MultiheadAttention GroupNorm BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm RMSNorm"
    ).split()
)
NOT_SET_BY_DEFAULT = frozenset(
    (
        "Bilinear ConvTranspose3d EmbeddingBag GRU GRUCell LSTMCell PReLU RNN RNNCell"
        " SyncBatchNorm TransformerDecoderLayer TransformerEncoderLayer"
    ).split()
)
