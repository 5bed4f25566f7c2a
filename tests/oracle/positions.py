"""Where in a child's method a call of the parent's can stand.

Each template is the tail of a method body that ends with a return.  `<S>` is the call, `<V>`
and `<W>` are two local names, `<E>` is a bound integer.  The method of the parent gives an integer unless the kind says otherwise.
"""

METHOD = {
    "statement": (
        "<S>\nreturn self.n",
        "<S>\n<V> = self.n + <E>\nreturn <V>",
        "<V> = <E>\n<S>\nreturn <V>",
    ),
    "return": ("return <S>",),
    "assign": (
        "<V> = <S>\nreturn <V> * 2",
        "<V> = <S>\n<V> = <V> + <E>\nreturn <V>",
        "<V> = <W> = <S>\nreturn <V> + <W>",
    ),
    "annotated assign": ("<V>: int = <S>\nreturn <V> - 1",),
    "attribute assign": (
        "self.kept = <S>\nreturn self.kept + 1",
        "self.items[:] = [<S>]\nreturn len(self.items)",
    ),
    "augmented": ("<V> = 1\n<V> += <S>\nreturn <V>", "self.n -= <S>\nreturn self.n"),
    "call argument": (
        "return shift(<S>)",
        "<V> = max(<S>, <E>, 3)\nreturn <V>",
        "return note('o', <E>, <S>)",
        "return dict(k=<S>)['k']",
        "return max(*[<S>, 2])",
    ),
    "operator": (
        "return <S> + 1",
        "return <E> - <S>",
        "<V> = -<S>\nreturn <V>",
        "return note('left', 2) * <S> + note('right', 3)",
        "return <S> > 3",
        "return <S> or 5",
        "return <E> and <S>",
    ),
    "tuple": ("return <S>, <E>", "<V>, <W> = <S>, 2\nreturn <V> + <W>", "return [<S>, {'k': <S>}]"),
    "ternary": (
        "return <S> if <E> > 2 else 0",
        "<V> = 1 if <S> > 2 else <E>\nreturn <V>",
        "return 0 if <E> > 2 else <S>",
    ),
    "condition": (
        "if <S> > 3:\n    return 1\nreturn self.n",
        "if <E> > 100:\n    return 0\nelif <S> > 3:\n    return 1\nreturn 2",
        "<V> = 0\nwhile <S> + <V> < 3 and <V> < 4:\n    <V> += 1\nreturn <V>",
        "assert <S> is not None\nreturn self.n",
        "if <E> > 3:\n    <S>\n    return 1\nreturn 0",
        "if <E> > 3:\n    return <S>\nreturn 0",
    ),
    "f-string": ('return f"""{<S>}!"""', 'return f"""{<E>}{<S>:>4}{{}}"""'),
    "walrus": ("if (<V> := <S>) > 1:\n    return <V>\nreturn -1", "return [<V> := <S>, <V> + 1]"),
    "with": (
        "with tracked(<S>) as <V>:\n    return <V> + 1",
        "with tracked(<E>):\n    <V> = <S>\nreturn <V>",
        "with tracked(<E>) as <V>:\n    <S>\nreturn <V>",
        "with tracked(<E>):\n    return <S>",
    ),
    "for": (
        "<V> = 0\nfor <W> in range(<S> % 3):\n    <V> += <W>\nreturn <V>",
        "<V> = 0\nfor <W> in range(2):\n    <V> += <S>\nreturn <V>",
        "for <W> in range(2):\n    <S>\nreturn self.n",
        "for <W> in range(2):\n    if <W>:\n        return <S>\nreturn 0",
    ),
    "try": (
        "try:\n    <V> = <S>\nfinally:\n    note('child finally')\nreturn <V>",
        "try:\n    return <S>\nexcept ValueError as <V>:\n    return str(<V>)",
        "try:\n    note('t')\nfinally:\n    <S>\nreturn self.n",
        "try:\n    <S>\nexcept Exception:\n    raise RuntimeError('child')\nelse:\n    return 3",
    ),
    "nested def": ("def inner(self):\n    return <S>\nreturn inner(self) + 1",),
    "lambda": ("return (lambda self: <S>)(self)",),
    "comprehension": ("return [<W> for <W> in range(<S> % 4)]",),
    "decorator": ("@plus(<S>)\ndef inner(<W>):\n    return <W>\nreturn inner(1)",),
    "default argument": (
        "def inner(<W>=<S>):\n    return <W>\nreturn inner() + inner()",
        "return (lambda <W>=<S>: <W>)()",
    ),
    "subscript": (
        "return (4, 5, 6)[<S> % 3]",
        "<V> = {}\n<V>[<S>] = 1\nreturn <V>",
        "return <S>.bit_length()",
    ),
    "slice": ("return list(range(9))[: <S>]",),
    "raise": ("raise ValueError(<S>)", "if <S> > 3:\n    raise KeyError(<E>)\nreturn 1"),
    "match": (
        "match <S> % 2:\n    case 0:\n        return 'even'\n    case <V>:\n        return <V>",
    ),
    "twice": (
        "return <S> + <S>",
        "<S>\n<V> = <S>\nreturn <V>",
        "<S>\n<S>\nreturn self.n",
        "<V> = <S>\n<W> = <S>\nreturn <V>, <W>",
        "if <E> > 2:\n    return <S>\nreturn <S> + 1",
    ),
    "semicolons": ("<V> = 1; <S>; return <V>", "<V> = <S>; return <V>"),
    "one line if": ("if <E> > 2: return <S>\nreturn 0",),
    "parenthesised": ("return (\n    <S>  # the parent's\n    + 1\n)", "<V> = (<S>)\nreturn (<V>)"),
    "delete": ("<V> = {<S>: 1, -99: 2}\ndel <V>[-99]\nreturn len(<V>)",),
    "comment": (
        "# before\n<S>  # at the call\n# after\nreturn self.n",
        "return <S>  # the whole of it",
    ),
}

ASYNC = {
    "await": (
        "return await <S>",
        "<V> = await <S>\nreturn <V> + 1",
        "await <S>\nreturn self.n",
        "return (await <S>) + (await <S>)",
        "return [await <S>]",
        "<V> = <S>\nreturn await <V>",
        "if await <S> > 2:\n    return 1\nreturn 0",
    ),
}

GENERATOR = {
    "yield": (
        "yield <E>\nyield from <S>",
        "for <W> in <S>:\n    yield <W> + 1",
        "<V> = list(<S>)\nyield len(<V>)",
        "<V> = yield from <S>\nyield <V>",
        "yield <S>",
    ),
    "return of a generator": ("return <S>", "return list(<S>)", "return (<W> for <W> in <S>)"),
}
