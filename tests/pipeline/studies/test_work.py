"""A trial whose run is lost or damaged while it waits or works."""

import json
import shutil
from collections import deque
from types import SimpleNamespace

from fabricated import Fabricated

from skelbench.pipeline.studies.runner import Runner
from skelbench.pipeline.studies.worker_process import Work


def test_a_run_that_is_lost_or_damaged_says_nothing_and_stops_nobody(tmp_path):
    made = Fabricated(tmp_path / "results")
    run = tmp_path / "results" / made.run("slim")
    info, session = (run / "run.json").read_text(), SimpleNamespace(results=made.store)
    work = Work(SimpleNamespace(id=json.loads(info)["id"], clips=10), None, None, tmp_path / "log", 0, 0.0, 0.0)
    work.update(session)
    assert work.stage == "probing" and work.failure(0, session) is None
    (run / "run.json").write_text(info[:20])
    work.update(session)
    work.record_failure("it was killed")
    assert "run.json" in work.failure(0, session) and "damaged" in work.failure(0, session)
    assert (run / "run.json").read_text() == info[:20]
    shutil.rmtree(run)
    work.update(session)
    assert work.failure(0, session).startswith("it ended without a finished run")


def test_a_trial_whose_run_was_damaged_while_it_waited_is_begun_and_says_so_itself(tmp_path):
    made = Fabricated(tmp_path / "results")
    run = tmp_path / "results" / made.run("slim")
    trial = SimpleNamespace(id=json.loads((run / "run.json").read_text())["id"])
    (run / "run.json").write_text("{")
    waiting = deque([(trial, None)])
    begun, _, claim = Runner(SimpleNamespace(results=made.store), [], tmp_path / "study", 1, None)._free(waiting)
    claim.release()
    assert begun is trial and not waiting
