"""What verify checks of each part: one module a part, with `PART_CHECK`."""
