"""What a project is.

Its configuration, its files, where its things lie, and by whose rules it is flattened.
"""
