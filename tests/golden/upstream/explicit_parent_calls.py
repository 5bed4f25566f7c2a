"""`super()` where a final base is named, `nn.Module` beside the checkpointing layer, `PreTrainedModel` in a base's name."""
# --- parent
class ZnewModel(GradientCheckpointingLayer, ZnewPreTrainedModel):
    def __init__(self, config):
        super().__init__()
        self.x = 1
# --- child
class ZnewModel(ZparModel):
    def __init__(self, config):
        """Child."""
        work(config)
        ZnewPreTrainedModel.__init__(config)

    def f(self, x):
        if x:
            é = "é"; nn.Module.f(self)
        a.nn.Module.f(self)
        return PreTrainedModel.f(
            self,
            x,
            y=PreTrainedModel.g(self, **x),
        )
# --- merged
class ZnewModel(GradientCheckpointingLayer, ZnewPreTrainedModel):
    def __init__(self, config):
        """Child."""
        work(config)
        super().__init__(config)

    def f(self, x):
        if x:
            é = "é"; super().f()
        a.nn.Module.f(self)
        return super().f(
            x,
            y=super().g(**x),
        )
