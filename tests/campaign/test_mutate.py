from .mutate import attempt, campaign
from .readers import PLACE, READERS


def test_no_reader_falls():
    """A short one; a long one is ``python -m tests.campaign.mutate``."""
    try:
        tally, failures = campaign(800, seed=3)
        again = attempt("pku text", 3, 0)
    finally:
        PLACE.remove()
    assert not failures
    assert tally.keys() == READERS.keys() and sum(sum(c.values()) - c["seconds"] for c in tally.values()) >= 800
    assert sum(counted["read"] for counted in tally.values()) > 100 and again in ("read", "refused")
