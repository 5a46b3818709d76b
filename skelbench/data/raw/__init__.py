"""Datasets from their raw files, as their owners publish them."""
