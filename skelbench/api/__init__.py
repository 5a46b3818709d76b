"""Python API; ``import skelbench`` names all of it, and loads each part on first use."""
