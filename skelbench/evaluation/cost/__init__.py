"""Cost of encoders and training steps, by one convention."""

BODIES = 2
"""Bodies of the clips that tables and dry runs give costs of: what every baseline runs per clip."""
