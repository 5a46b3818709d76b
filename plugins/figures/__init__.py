"""Figures of single runs and methods: features, confusion, robustness, masks and views."""
