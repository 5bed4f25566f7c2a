"""embedding_gemma2: `OmniModalProcessorMixin` for `ProcessorMixin`; sam2: `nn.Module` goes with the checkpointing layer."""
# --- parent
class ZnewProcessor(ProcessorMixin, nn.Module,):
    x = 1
# --- child
class ZnewProcessor(OmniModalProcessorMixin, ZparProcessor, GradientCheckpointingLayer):
    pass
# --- merged
class ZnewProcessor(OmniModalProcessorMixin, GradientCheckpointingLayer):
    x = 1
# --- bases
OmniModalProcessorMixin GradientCheckpointingLayer
