"""Suites: named lists of datasets, presets, protocols and seeds that make the rows of one table comparable."""
