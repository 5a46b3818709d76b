"""The methods that ship with skelbench: every module here is a plugin file, read as a stranger's is."""
