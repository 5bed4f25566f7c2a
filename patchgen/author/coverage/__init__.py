"""`patchgen coverage`: which part works in which model of transformers, and how that was tested."""
