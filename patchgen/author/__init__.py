"""Write modular files: for a model, for a fork, and for every model of transformers."""
