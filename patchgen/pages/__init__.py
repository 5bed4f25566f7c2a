"""Pages that show a variant beside what it was made from, line by line.

In: what the compiler says of a modular file.  Out: one HTML file that needs nothing else.

    trace.py        read: the texts, the outputs and what each edit matched
    links.py        where does each line of an output come from?
    outline.py      what does each line say, and in which definition does it stand?
    changes.py      what differs from the parent, and which edit made it?
    verdicts.py     what do `check` and `verify` say?
    render.py       the pages, their lines as HTML
"""
