"""Steps from a request to runs that are trained, evaluated and costed."""
