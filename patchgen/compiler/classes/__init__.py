"""The text of one class: its statements, its members, and what they set."""
