"""vivit: what `__init__` assigns after its super() call also replaces the target in a method that is inlined later."""
# --- parent
class ZnewEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 1

    def f(self, x):
        n = x.shape[1]
        # kept
        y: int = 1
        return n
# --- child
class ZnewEmbeddings(ZparEmbeddings):
    def __init__(self):
        super().__init__()
        n = 7
        del y

    def f(self, x):
        super().f(x)
        print(n)
# --- merged
class ZnewEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 1
        n = 7

    def f(self, x):
        n = 7
        return n
        print(n)
