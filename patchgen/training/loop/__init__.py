"""`patchgen train` trains a variant or a stock model on text, with transformers' own Trainer.

Needs torch and transformers.  Only the command line imports this package.
"""
