"""The version of this package: recorded with runs and data sets."""

__version__ = "0.2.0"
