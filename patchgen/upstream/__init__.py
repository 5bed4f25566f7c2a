"""The profile `transformers`: modular files inside that package, by the rules that its checked-in
outputs follow.

These rules are text rules, defined by 667 files: names by prefix, dependencies by every identifier,
statements replaced by the text of their target.  The strict profile knows nothing of them.  No
libcst here, and no syntax tree is kept.
"""
