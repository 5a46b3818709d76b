"""Commands that are killed, run side by side, or run out of disk space."""
