"""`patchgen coverage`: which part goes into which model of transformers, and what was shown of it."""
