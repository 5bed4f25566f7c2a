"""Small errors planted in the lines that a variant adds or changes, and which cases see them."""
