"""NTU RGB+D 60 and 120 from their raw `.skeleton` files."""
