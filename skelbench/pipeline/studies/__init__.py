"""Studies: grids of runs that answer one question, from one command."""
