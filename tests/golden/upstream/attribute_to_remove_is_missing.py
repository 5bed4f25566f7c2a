"""There is nothing to remove."""
# --- parent
class ZnewConfig(PreTrainedConfig):
    hidden = 3
# --- child
class ZnewConfig(ZparConfig):
    a = 1
    hiden = AttributeError()
# --- refused
3:5 PG621
