"""What `super()` means in a flat class, and the text that takes its place."""
