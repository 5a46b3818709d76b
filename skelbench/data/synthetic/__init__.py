"""A made data set that a method can learn from."""
