"""Makers of fixtures, literal references, and fuzzers (``python -m tests.made.fuzz_text``, ``fuzz_pickle``)."""
