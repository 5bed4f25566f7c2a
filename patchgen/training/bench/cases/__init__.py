"""The cases of the matrix, by model."""
