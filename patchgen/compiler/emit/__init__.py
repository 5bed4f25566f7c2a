"""A module to bytes: banner, format, proof that it stands alone, and where each line came from."""
