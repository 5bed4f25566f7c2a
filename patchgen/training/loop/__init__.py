"""`patchgen train`: a variant or a stock model, trained on text by transformers' own Trainer.

Needs torch and transformers; only the command line imports it.
"""
