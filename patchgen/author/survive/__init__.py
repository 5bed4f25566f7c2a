"""On which releases does a variant convert, and what broke it on the others?"""
