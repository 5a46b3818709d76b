"""From what was typed to runs that are trained, evaluated and costed."""
