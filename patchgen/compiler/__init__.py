"""One modular file to the text of its flat files: plan, merge, link, emit.

Nothing is imported or run.
"""
