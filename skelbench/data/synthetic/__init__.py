"""The synthetic dataset, from which a method can learn."""
