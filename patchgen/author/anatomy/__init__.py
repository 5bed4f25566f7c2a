"""What a modeling module of transformers is made of, found by its structure: attention, layers, FFN, norms, heads."""
