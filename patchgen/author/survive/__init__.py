"""On which releases of transformers does a variant convert, and what broke it on the others?

survey     every variant on every release, by the project's own cache
breaks     the definition of the parent that makes the difference between two releases
report     both as text and as data
"""
