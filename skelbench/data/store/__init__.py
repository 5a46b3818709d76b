"""The clip store: a folder of ragged clips with an index and splits, written, opened, fed to a device."""
