"""The parent's statements replaced at their places, then what of the tail is not there yet, then `post_init`."""
# --- parent
class ZnewModel(ZnewPreTrainedModel):
    def __init__(self, config):
        """Doc."""
        super().__init__(config)
        self.config = config
        self.act = GELU()
        self.w: int = 4
        self.x, self.y = 1, 2
        self.act = ReLU()
        self.post_init()
# --- child
class ZnewModel(ZparModel):
    def __init__(self, config):
        pre = 1
        super().__init__(config)
        n = compute()
        self.act = make(n)
        self.w = 9
        self.x = 5
        self.x = 5  # repeated
        del self.config
        nn.Module.__init__(self)
# --- merged
class ZnewModel(ZnewPreTrainedModel):
    def __init__(self, config):
        """Doc."""
        super().__init__(config)
        pre = 1
        self.act = make(n)
        self.w: int = 4
        self.x, self.y = 1, 2
        self.act = make(n)
        n = compute()
        self.w = 9
        self.x = 5
        nn.Module.__init__(self)
        self.post_init()
