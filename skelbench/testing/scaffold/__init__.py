"""New plugins from templates: one small plugin of each kind that runs as it is, and the project around it."""
