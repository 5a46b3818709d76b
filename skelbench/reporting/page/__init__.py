"""Report page of all results: one HTML file that loads nothing from elsewhere."""
