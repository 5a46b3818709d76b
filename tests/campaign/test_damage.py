from .damage import campaign


def test_no_command_falls_over_damaged_files(tmp_path):
    """A few; all are ``python -m tests.campaign.damage``."""
    tally, wrong = campaign(tmp_path, flips=2, share=0.004)
    assert not wrong
    assert sum(counted["said"] for counted in tally.values()) >= 3
