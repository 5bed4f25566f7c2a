"""Read the text of a class: its statements, its members, and what they set."""
