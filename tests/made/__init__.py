"""Makers of fixtures and of damaged files, and literal references."""
