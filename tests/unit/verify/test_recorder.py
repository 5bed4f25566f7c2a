"""One recorder tells each listener what it asks for, and nothing else."""

import pytest

torch = pytest.importorskip("torch")

from patchgen.verifying.observe.recorder import Listener, count_flops, listening


class Names(Listener):
    """The names of functions and operations, and the shapes of what is saved."""

    def __init__(self):
        self.functions, self.operations, self.shapes, self.flops = [], [], [], 0

    def called(self, function, args, given):
        self.functions.append(function.__name__)

    def ran(self, operation, args, given, out):
        self.operations.append(str(operation.overloadpacket))
        self.flops += count_flops(operation, args, given, out)

    def saved(self, tensor):
        self.shapes.append(tuple(tensor.shape))


class Inside(Names):
    looks_inside = True


class Before(Listener):
    """The first value of what is about to be changed in place."""

    def __init__(self):
        self.values = []

    def begins(self, operation, args, given):
        if operation.overloadpacket is torch.ops.aten.add_:
            self.values.append(args[0][0].item())


@torch.library.custom_op("recorder_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


def test_forward_and_backward_are_heard():
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4, requires_grad=True)
    with listening(names := Names()):
        torch.matmul(a, b).exp().sum().backward()
    assert names.functions[:2] == ["matmul", "exp"]
    assert names.operations.count("aten.mm") == 3 and names.flops == 3 * 2 * 2 * 3 * 4
    assert sorted(names.shapes) == [(2, 3), (2, 4), (3, 4)]


def test_a_body_in_python_is_heard_by_who_looks_inside():
    outside, inside = Names(), Inside()
    for names in (outside, inside):
        with listening(names):
            twice(torch.ones(2))
    assert "recorder_test.twice" in outside.operations and "aten.add" not in outside.operations
    assert "aten.add" in inside.operations


def test_what_is_changed_in_place_is_heard_before():
    x = torch.ones(2)
    with listening(before := Before()):
        x.add_(1)
        x.add_(1)
    assert before.values == [1.0, 2.0]
