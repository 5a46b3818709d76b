"""The live page: what is told of runs that go on, and that the server tells it to nobody else."""

import http.client
import json
import threading
from types import SimpleNamespace

import pytest
from fabricated import Fabricated
from hostile import edit

from skelbench.pipeline.studies.runner import Runner, write_queue
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting.page.live import Growing, Watcher
from skelbench.reporting.page.serve import open_server


def line(step, **more):
    return json.dumps({"step": step, "epoch": step / 10, "clips_seen": 32 * step, "loss": 1 / step, **more}) + "\n"


@pytest.fixture
def metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1) + line(2))
    return path


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


def test_only_what_is_new_is_read_and_half_a_line_waits(metrics):
    growing = Growing(metrics)
    assert growing.read() and [one["step"] for one in growing.lines] == [1, 2]
    assert not growing.read()
    third = line(3)
    append(metrics, third[:10])
    assert not growing.read() and len(growing.lines) == 2
    append(metrics, third[10:])
    assert growing.read() and [one["step"] for one in growing.lines] == [1, 2, 3]


def test_lines_that_cannot_be_read_are_left_out(metrics):
    append(metrics, 'nonsense\n["a list"]\n{"clips_seen": "many"}\n' + "[" * 5000 + "\n" + line(3))
    growing = Growing(metrics)
    growing.read()
    assert [one["step"] for one in growing.lines] == [1, 2, 3]


@pytest.mark.parametrize("again", [line(1), line(1, lr=0.5) + line(2, lr=0.5) + line(3), line(9) * 40])
def test_a_file_that_was_cut_back_is_read_anew(metrics, again):
    growing = Growing(metrics)
    growing.read()
    metrics.write_text(again)
    assert growing.read()
    assert [one["step"] for one in growing.lines] == [json.loads(text)["step"] for text in again.splitlines()]


def test_a_file_that_is_gone_has_no_lines(metrics):
    growing = Growing(metrics)
    growing.read()
    metrics.unlink()
    assert growing.read() and growing.lines == [] and growing.figures() == {}


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr("skelbench.reporting.page.live.EVERY_SECONDS", 0.0)
    made = Fabricated(tmp_path / "r")
    made.run("slim", 0.75)
    name = made.run(
        "mamp", None, outcome="running", metrics=[json.loads(line(1)), json.loads(line(2, loss=0.25))], epochs=4.0
    )
    return made, name


def test_a_run_is_told_as_it_grows_and_only_what_changed_is_told(watched):
    made, name = watched
    watcher = Watcher(made.store)
    first = watcher.state()
    told = {run["title"]: run for run in first["runs"]}
    assert told["slim"]["state"] == "done" and told["slim"]["accuracies"] == {"linear": 75.0, "knn": 40.0}
    assert told["mamp"]["state"] == "interrupted"  # says that it runs, and nobody works on it
    assert told["mamp"]["share"] == pytest.approx(0.05) and told["mamp"]["lines"]["loss"] == [[32, 64], [1.0, 0.25]]
    with RunDir(made.root / name).lock():
        append(made.root / name / "metrics.jsonl", line(20, clips_per_s=64.0))
        second = watcher.state(first["boot"], first["tick"])
    (changed,) = second["runs"]
    assert changed["title"] == "mamp" and changed["state"] == "running" and changed["share"] == pytest.approx(0.5)
    assert changed["left"] == pytest.approx(640 / 64)  # as much again as it has seen
    assert sorted(second["names"]) == sorted(first["names"]) and second["tick"] > first["tick"]
    assert len(watcher.state("another server's", second["tick"])["runs"]) == 2


def test_other_streams_are_named_and_other_settings_are_not_told(watched):
    made, _ = watched
    made.run("slim", 0.5, knn=None, streams=("bone",), standard=False)
    made.run("slim", 0.25, knn=None, probe={"epochs": 1})
    made.run("slim", 0.6, knn=None, checkpoint="75", standard=False)
    (told,) = (run for run in Watcher(made.store).state()["runs"] if run["title"] == "slim")
    assert told["accuracies"] == {"linear": 75.0, "knn": 40.0, "linear, bone": 50.0}


def test_other_data_are_named(watched):
    made, _ = watched
    name = made.run("gfp", 0.5, knn=None, protocol="transfer-linear")
    (path,) = (made.root / name).glob("eval-*.json")
    spec = json.loads(path.read_text())["spec"]
    edit(path, spec=spec | {"data": spec["data"] | {"name": "pku2"}})
    (told,) = (run for run in Watcher(made.store).state()["runs"] if run["title"] == "gfp")
    assert [*told["accuracies"]] == ["transfer-linear, pku2 cross-view"]


def test_damaged_and_removed_runs_leave_the_rest(watched):
    made, name = watched
    watcher = Watcher(made.store)
    watcher.state()
    (made.root / name / "run.json").write_text("{")
    state = watcher.state()
    assert [run.partition("-")[0] for run in state["names"]] == ["slim"]


def test_the_queue_of_a_study_is_told_with_the_state_of_its_trials(watched):
    made, _ = watched
    folder = made.root / "studies" / "mine"
    folder.mkdir(parents=True)
    done = next(run.spec.id for run in made.store.read() if run.title == "slim")
    trials = [{"id": done, "title": "slim 8t s0"}, {"id": "0" * 12, "title": "slim 8t s1"}]
    runner = Runner(SimpleNamespace(results=made.store), [], folder, 1, None)
    runner.run([], None)
    assert [*Watcher(made.store).state()["studies"]][0]["trials"] == []
    write_queue(folder, [SimpleNamespace(**trial) for trial in trials])
    (made.root / "studies" / "broken").mkdir()
    (made.root / "studies" / "broken" / "queue.json").write_text('{"trials": 3}')
    (study,) = Watcher(made.store).state()["studies"]
    assert study["name"] == "mine" and [one["state"] for one in study["trials"]] == ["done", "waiting"]


@pytest.fixture
def server(watched):
    made, _ = watched
    with open_server(made.store, 0, Host()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def test_it_listens_on_the_loopback_address_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_page_and_state(server):
    answer, page = ask(server, "/")
    assert answer.status == 200 and "connect-src &#39;self&#39;" in page and answer.headers["X-Frame-Options"] == "DENY"
    answer, text = ask(server, "/state.json?since=0")
    assert answer.headers["Content-Type"] == "application/json" and answer.headers["Cache-Control"] == "no-store"
    assert len(json.loads(text)["runs"]) == 2
    answer, text = ask(server, "/state.json?since=-1&boot=%00")
    assert answer.status == 200 and len(json.loads(text)["runs"]) == 2


def test_head_has_no_body(server):
    answer, text = ask(server, "/", "HEAD")
    assert answer.status == 200 and text == "" and int(answer.headers["Content-Length"]) > 1000


def test_the_report_is_made_again_when_there_is_more_to_say(server, watched):
    made, _ = watched
    (folder,) = made.root.glob("slim-*")
    first = ask(server, "/report")[1]
    assert ask(server, "/report")[1] == first
    edit(folder / "run.json", tags=["mine"])
    tagged = ask(server, "/report")[1]
    assert tagged != first
    made.run("slim", 0.6, knn=None, checkpoint="75")
    assert ask(server, "/report")[1] != tagged


def test_a_diagnosis_is_something_new_to_report(watched):
    made, name = watched
    watcher = Watcher(made.store)
    before = watcher.results()
    assert watcher.results() == before
    (made.root / name / "diagnose-order-1.json").write_text("{}")
    assert watcher.results() != before


@pytest.mark.parametrize("path", ["/run.json", "/../run.json", "//etc/passwd", "/state.json/", "/%2e%2e/etc/passwd"])
def test_there_are_no_files(server, path):
    assert ask(server, path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server, method):
    answer, _ = ask(server, "/", method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_name_for_this_address_is_refused(server, host):
    answer, text = ask(server, "/state.json", Host=host.format(port=server.server_port))
    assert answer.status == 403 and "slim" not in text
    assert ask(server, "/state.json", Host=f"localhost:{server.server_port}")[0].status == 200


def test_a_store_without_runs_has_a_page_and_no_report(tmp_path):
    with open_server(ResultStore(tmp_path / "none"), 0, Host()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            assert json.loads(ask(server, "/state.json")[1])["runs"] == []
            answer, text = ask(server, "/report")
            assert answer.status == 409 and "nothing to report" in text
        finally:
            server.shutdown()
            thread.join()
