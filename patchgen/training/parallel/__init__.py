"""Trains a model on several processes, and checks that the right engine runs."""
