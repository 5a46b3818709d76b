"""Checks of a paper's claims other than accuracy: masks, invariance, time order, classes."""
