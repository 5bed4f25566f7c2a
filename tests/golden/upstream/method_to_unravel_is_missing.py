"""The parent inherits it, so there is no body to put here."""
# --- parent
class ZnewModel(ZnewPreTrainedModel):
    def forward(self):
        pass
# --- child
class ZnewModel(ZparModel):
    def _init_weights(self, module):
        self.é = 1
        super()._init_weights(module)
# --- refused
4:9 PG622
