"""Optimizers, schedules and parameter groups."""
