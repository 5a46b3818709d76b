"""What encoders and training steps cost, counted one way."""

BODIES = 2
"""Bodies of the clips that tables and dry runs give costs of: what every baseline runs per clip."""
