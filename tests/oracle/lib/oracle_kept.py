"""What generated packages import and no flattener merges: a trace, a base class, a mixin, decorators, managers.

The inherited and the flat run share this one module, so `LOG` is comparable between them.
"""

import contextlib
import functools

LOG = []


def note(tag, *values):
    """Append to the trace and hand back the last value: `note("x", 3)` is 3 with a witness."""
    LOG.append((tag, *values))
    return values[-1] if values else None


def logged(function):
    """A decorator that leaves a trace and changes the result, so that losing it shows."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        note("logged")
        return function(*args, **kwargs)

    return wrapper


def plus(amount):
    """A decorator factory: the decorated function returns `amount` more."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) + amount

        return wrapper

    return decorate


def registered(cls):
    """A class decorator that only marks."""
    cls.marked = True
    return cls


@contextlib.contextmanager
def tracked(value):
    """Trace entry and exit; an exception passes through."""
    note("enter", value)
    try:
        yield value
    finally:
        note("exit", value)


def run(coroutine):
    """Drive a coroutine that never really waits, or collect an asynchronous generator."""
    if hasattr(coroutine, "__aiter__"):
        return run(_collect(coroutine))
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("the coroutine waits")


async def _collect(iterator):
    return [item async for item in iterator]


class Ready:
    """An awaitable that is ready."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        return self.value
        yield


class Module:
    """A kept base with a protocol of its own, as torch's is: `__call__` runs `forward` and traces."""

    kept_flag = "module"

    def __init__(self):
        self.ready = True

    def __call__(self, *args, **kwargs):
        note("call", type(self).__name__)
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        raise NotImplementedError("forward")

    def describe(self):
        return "module"


class Loud:
    """A kept mixin that cooperates."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loud = True

    def describe(self):
        return f"loud {super().describe()}"


class Meta(type):
    """A metaclass that adds one attribute."""

    def __new__(mcls, name, bases, namespace, **keywords):
        cls = super().__new__(mcls, name, bases, namespace)
        cls.tagged = keywords.get("tag", getattr(cls, "tagged", "none"))
        return cls

    def __init__(cls, name, bases, namespace, **keywords):
        super().__init__(name, bases, namespace)


class Logged:
    """A descriptor that remembers under which name it stands."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner=None):
        return self if obj is None else note("get", self.name, obj.__dict__.get(self.name, 0))

    def __set__(self, obj, value):
        note("set", self.name, value)
        obj.__dict__[self.name] = value
