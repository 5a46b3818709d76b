"""Optimisers, schedules and parameter groups."""
