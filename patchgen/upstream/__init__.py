"""The profile `transformers`: convert modular files inside that package by its own rules.

These are rules about text, defined by 667 checked-in outputs: names change by prefix, every
identifier is a dependency, and statements are replaced by the text of their target.  The strict
profile uses none of this.  No libcst is needed, and no syntax tree is kept.
"""
