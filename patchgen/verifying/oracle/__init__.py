"""What a modular file means to Python: it is run, with no code of the compiler, and compared."""
