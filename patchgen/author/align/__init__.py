"""Two versions of a file side by side: which definition, member and statement is which."""
