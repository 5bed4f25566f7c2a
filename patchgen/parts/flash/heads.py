"""Heads that read the states of padding."""

# mypy: disable-error-code="no-untyped-def, misc, attr-defined, call-arg"
__all__ = ["KeepsPadding"]


class KeepsPadding:
    def __init__(self, config):
        super().__init__(config)
        self.base_model.keeps_padding = True  # the softmax over positions runs over padding too
