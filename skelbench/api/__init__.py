"""What notebooks and other people's code use; ``import skelbench`` names all of it, and loads none of it before use."""
