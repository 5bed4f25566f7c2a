"""One recorder tells each listener what it asks for, and nothing else."""

import pytest

torch = pytest.importorskip("torch")

from patchgen.verify.observe.recorder import Listener, listening


class Names(Listener):
    """The names of functions and operations, and the shapes of what is saved."""

    def __init__(self):
        self.functions, self.operations, self.shapes = [], [], []

    def called(self, function, args, given):
        self.functions.append(function.__name__)

    def ran(self, operation, args, given, out):
        self.operations.append(str(operation.overloadpacket))

    def saved(self, tensor):
        self.shapes.append(tuple(tensor.shape))


class Before(Listener):
    """The first value of what is about to be changed in place."""

    def __init__(self):
        self.values = []

    def begins(self, operation, args, given):
        if operation.overloadpacket is torch.ops.aten.add_:
            self.values.append(args[0][0].item())


def test_forward_and_backward_are_heard():
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4, requires_grad=True)
    with listening(names := Names()):
        torch.matmul(a, b).exp().sum().backward()
    assert names.functions[:2] == ["matmul", "exp"]
    assert names.operations.count("aten.mm") == 3
    assert sorted(names.shapes) == [(2, 3), (2, 4), (3, 4)]


def test_what_is_changed_in_place_is_heard_before():
    x = torch.ones(2)
    with listening(before := Before()):
        x.add_(1)
        x.add_(1)
    assert before.values == [1.0, 2.0]
