"""Long tries, too long for the test suite, which runs a short part of each: ``python -m tests.campaign.NAME``."""
