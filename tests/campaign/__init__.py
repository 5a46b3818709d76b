"""Campaigns that hunt for results that are lost or silently wrong: ``python -m tests.campaign.kill --count 200``."""
