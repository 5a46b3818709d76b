"""Frozen suites: what every row of a table is made with, held in a file and compared with what is here."""
