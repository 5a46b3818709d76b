"""The contract of methods and the parts of their families."""
