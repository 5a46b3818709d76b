"""What encoders and training steps cost, counted one way."""

BODIES = 2
"""Bodies of the clips that tables and dry runs give costs of: what every baseline runs per clip."""


def passes(bodies: int) -> int:
    """How often an encoder that reads so many bodies at once looks at a clip of :data:`BODIES`."""
    return -(-BODIES // bodies)
