"""PKU-MMD, phases I and II, from its raw text files."""
