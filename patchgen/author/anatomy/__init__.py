"""The structure of a modeling module: its attentions, layers, FFNs, norms and heads."""
