"""Targets of masked prediction: exchangeable, and not part of the probed encoder."""
