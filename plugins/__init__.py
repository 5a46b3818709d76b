"""Methods that ship with skelbench: every module here is a plugin file, loaded like a user's file."""
