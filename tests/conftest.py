"""The environment of every test, set before anything imports torch or transformers."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # small models on shared cores: more threads are slower, and sums differ
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"
