"""How files are changed.

Whole or not at all, in turns, and finished by the next run where one was killed.
"""
