"""The version of this package: recorded with runs and datasets."""

__version__ = "0.2.0"


def installed(distribution: str) -> str:
    """Version of an installed distribution; "" if there is none."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
