"""Suites: named lists of data sets, presets, protocols and seeds that make the rows of one table comparable."""
