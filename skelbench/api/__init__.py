"""The Python API; ``import skelbench`` names all of it, and loads none of it before use."""
