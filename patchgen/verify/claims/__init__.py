"""What each part claims: a module by the name of the part, with `CLAIM`."""
