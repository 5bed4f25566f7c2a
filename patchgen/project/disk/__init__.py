"""How files are changed: whole or not at all, in turns, and finished by the next run where one was killed."""
