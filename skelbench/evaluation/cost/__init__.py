"""Cost of encoders and training steps, by one convention."""

BODIES = 2
"""Number of bodies per clip in costs of tables and dry runs: the bodies that every baseline processes."""
