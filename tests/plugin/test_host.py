"""One broken plugin is a status of its own; names are unambiguous; observers cannot disturb."""

import logging
import os

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import API_VERSION
from skelbench.plugin.host import Host, get_host, request_files


def status(host, name):
    (found,) = [plugin for plugin in host.plugins if plugin.name == name]
    return found


STING = "raise ValueError('no\\nsting')  # where others say @hookimpl"


@pytest.mark.parametrize(
    ("body", "state", "said"),
    [
        ("import no_such_module_here  # hookimpl", "import-error", "no_such_module_here"),
        ("import sys\nsys.exit(11)", "import-error", "SystemExit: 11"),
        ("def broken(:", "import-error", "SyntaxError"),
        ("@hookimpl\ndef skelbench_methdos():\n    return []", "invalid", "did you mean 'skelbench_methods'?"),
        ("def skelbench_tables():\n    return []", "invalid", "skelbench_tables lacks the decorator @hookimpl"),
        ("x = 1", "invalid", "announces nothing"),
        ("@hookimpl\ndef skelbench_log(run, stop):\n    pass", "invalid", "'stop'"),
        ("@hookimpl\ndef skelbench_methods():\n    return None", "invalid", "not a list of MethodSpec"),
        ("@hookimpl\ndef skelbench_methods():\n    1 / 0", "invalid", "skelbench_methods: broken.py:4"),
        ("@hookimpl\ndef skelbench_methods():\n    yield 1\n    1 / 0", "invalid", "ZeroDivisionError"),
    ],
)
def test_a_broken_plugin_is_a_status_and_the_next_one_works(write, good, on_path, caplog, body, state, said):
    host = on_path(write("broken.py", body), good("fine.py", "bee"))
    failed = status(host, "broken")
    assert failed.state == state
    assert said in failed.error and "\n" not in failed.error
    assert host.get("methods", "bee").summary == "a method" and status(host, "fine").state == "ok"
    assert [record for record in caplog.records if failed.error in record.getMessage()]


@pytest.mark.parametrize(
    ("descriptor", "state", "said"),
    [
        ("TableSpec(name='x', target='a:B')", "invalid", "MethodSpec is expected"),
        ("MethodSpec(name='Not A Slug', target='a:B')", "invalid", "lower case"),
        ("MethodSpec(name='x', target='a.B')", "invalid", "package.module:Name"),
        ("MethodSpec(name='x', target='a:B', native=3)", "invalid", "native=3"),
        ("MethodSpec(name='x', target='a:B', variants={'a:b': {}})", "invalid", "variant 'a:b' must be named by"),
        ("MethodSpec(name='x', target='a:B', version=True)", "invalid", "version=True"),
        (f"MethodSpec(name='x', target='a:B', api={API_VERSION + 1})", "api-mismatch", "upgrade skelbench"),
        ("MethodSpec(name='good', target='c:D')", "invalid", "announced twice"),
    ],
)
def test_a_bad_descriptor_does_not_take_its_neighbour_along(write, on_path, descriptor, state, said):
    body = f"""
    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="good", target="os:getcwd"), {descriptor}]

    @hookimpl
    def skelbench_tables():
        return [TableSpec(name="t", target="os:getcwd")]
    """
    host = on_path(write("half.py", body))
    assert status(host, "half").state == state
    assert said in status(host, "half").error
    assert host.names("methods") == ["good"]
    assert host.load(host.get("methods", "good")) is os.getcwd
    assert host.names("tables") == ["t"]


def test_clash_refuses_both_names_both_and_qualified_names_work(good, on_path):
    first, second = good("one.py", "bee"), good("two.py", "bee")
    second.write_text(second.read_text() + "\nSECOND = True\n")
    host = on_path(first, second)
    with pytest.raises(SkelbenchError, match="'one'.*'two'"):
        host.get("methods", "bee")
    assert [plugin.state for plugin in host.plugins[-2:]] == ["conflict", "conflict"]
    assert host.names("methods") == ["one:bee", "two:bee"]
    one, two = host.get("methods", "one:bee"), host.get("methods", "two:bee")
    assert host.load(one) is not host.load(two)
    assert [host.origin(descriptor).name for descriptor in host.all("methods")] == ["one", "two"]
    assert host.method("two:bee") == (two, "") and host.name(two) == "two:bee"


VARIED = """
    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="{name}", target="os:getcwd", variants={{"cold": {{}}, "wasp": {{}}}}), {more}]
"""


def test_the_last_part_of_a_name_is_a_variant_unless_the_whole_is_a_method(write):
    wasp = "MethodSpec(name='wasp', target='os:getpid')"
    host = Host([write("bee.py", VARIED.format(name="bee", more=wasp))])
    bee, wasp = host.get("methods", "bee"), host.get("methods", "wasp")
    for name in ("bee", "bee:bee"):
        assert host.method(name) == (bee, "") and host.method(f"{name}:cold") == (bee, "cold")
    assert host.method("bee:wasp") == (wasp, "")  # plugin:method
    assert host.method("bee:bee:wasp") == (bee, "wasp")
    for name, said in {
        "bee:cld": "unknown variant of bee 'cld'; did you mean 'cold'? See `skelbench plugins info bee`.",
        "wasp:cold": "method wasp has no variants; leave out ':cold'",
        "b:wasp": "unknown method 'b:wasp'; did you mean 'wasp'?",
    }.items():
        with pytest.raises(SkelbenchError) as caught:
            host.method(name)
        assert str(caught.value) == said


def test_a_failed_file_of_the_command_line_stops_any_use(write, good):
    host = Host([write("wasp.py", STING), good("a.py", "bee")])
    with pytest.raises(
        SkelbenchError, match=r"wasp\.py cannot be used \(import-error\): wasp\.py:2: ValueError: no sting"
    ):
        host.get("methods", "bee")


def test_load_turns_import_errors_into_one_sentence(write):
    body = """
    @hookimpl
    def skelbench_methods():
        return [
            MethodSpec(name="gone", target="no_such_module_here.x:Net"),
            MethodSpec(name="typo", target="collections:OrderdDict"),
            MethodSpec(name="nested", target="collections:OrderedDict.fromkeys"),
            MethodSpec(name="good", target="os:getcwd", config="os:getpid"),
        ]
    """
    host = Host([write("lazy.py", body)])
    with pytest.raises(SkelbenchError, match="of plugin 'lazy': ModuleNotFoundError") as caught:
        host.load(host.get("methods", "gone"))
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(SkelbenchError, match="did you mean 'OrderedDict'"):
        host.load(host.get("methods", "typo"))
    assert host.load(host.get("methods", "nested"))("ab") == {"a": None, "b": None}
    assert host.load(host.get("methods", "good"), "config") is os.getpid


def test_strict_raises_what_is_otherwise_a_status(write, monkeypatch):
    path = write("wasp.py", STING)
    assert status(Host([path]), "wasp").state == "import-error"
    monkeypatch.setenv("SKELBENCH_STRICT", "1")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", "")
    with pytest.raises(ValueError, match="sting"):
        Host([path])


OBSERVER = """
    seen = []

    @hookimpl
    def skelbench_log(run, step):
        {action}
"""


def test_an_observer_that_raises_is_logged_counted_and_alone(write, caplog):
    bad = write("bad.py", OBSERVER.format(action="raise RuntimeError('tracker is down')"))
    leaves = write("leaves.py", OBSERVER.format(action="raise SystemExit(3)"))
    fine = write("fine.py", OBSERVER.format(action="run['seen'].append(step)"))
    host, run = Host([bad, leaves, fine]), {"seen": []}
    with caplog.at_level(logging.WARNING):
        for step in (1, 2):
            host.notify("skelbench_log", run=run, step=step, metrics={})
    host.notify("skelbench_run_finished", run=run, outcome="done")
    assert run["seen"] == [1, 2] and host.observer_failures == {"bad": 2, "leaves": 2}
    messages = [record.getMessage() for record in caplog.records]
    assert len([m for m in messages if "tracker is down" in m and "'bad'" in m]) == 1


def test_get_host_is_kept_and_follows_the_command_line(good):
    path = good("a.py", "bee")
    assert get_host() is get_host()
    assert "bee" in get_host([path]).names("methods")
    try:
        request_files([str(path)])
        assert get_host().names("methods") == get_host([]).names("methods")
        assert "bee" in get_host().names("methods")
    finally:
        request_files([])
    assert "bee" not in get_host().names("methods")


def test_a_name_is_spelled_as_papers_write_it_where_that_names_one_method(write):
    body = """
    @hookimpl
    def skelbench_methods():
        bee = dict(spelling="BEE", target="os:getcwd")
        return [
            MethodSpec(name="bee", variants={"cold": {}}, **bee),
            MethodSpec(name="wasp", target="os:getcwd"),
            MethodSpec(name="one", target="os:getcwd", spelling="FLY"),
            MethodSpec(name="two", target="os:getcwd", spelling="FLY"),
        ]
    """
    host = Host([write("hive.py", body)])
    spelled = {title: host.spelling(title) for title in ("bee", "bee:cold", "wasp", "one", "two", "gone", "bee:gone")}
    assert spelled.pop("bee") == "BEE" and spelled.pop("bee:cold") == "BEE:cold"
    assert all(title == name for title, name in spelled.items())
