"""Checks of what a paper claims beside its accuracies: masks, invariance, time order, classes."""
