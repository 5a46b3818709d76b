"""One broken plugin is a status of its own; names are unambiguous; observers cannot disturb."""

import os

import pytest

from skelbench.core.errors import SkelbenchError
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
        ("x = 1", "invalid", "announces nothing"),
        ("@hookimpl\ndef skelbench_methods():\n    return None", "invalid", "announces nothing"),
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
    ("descriptor", "said"),
    [
        ("TableSpec(name='x', target='a:B')", "MethodSpec is expected"),
        ("MethodSpec(name='Not A Slug', target='a:B')", "lower case"),
        ("MethodSpec(name='x', target='a:B', native=3)", "native=3"),
        ("MethodSpec(name='x', target='a:B', variants={'a:b': {}})", "the name 'a:b' must be"),
        ("MethodSpec(name='x', target='a:B', version=True)", "version=True"),
        ("MethodSpec(name='good', target='c:D')", "announced twice"),
    ],
)
def test_a_plugin_with_a_bad_descriptor_announces_nothing(write, on_path, descriptor, said):
    body = f"""
    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="good", target="os:getcwd"), {descriptor}]
    """
    host = on_path(write("half.py", body))
    assert status(host, "half").state == "invalid" and said in status(host, "half").error
    assert host.entries == []


def test_a_plugin_that_announces_a_name_of_another_is_a_conflict(good, on_path):
    first, second = good("one.py", "bee"), good("two.py", "bee")
    second.write_text(second.read_text() + "\nSECOND = True\n")
    host = on_path(first, second)
    assert status(host, "two").state == "conflict" and "'bee' is announced by 'one'" in status(host, "two").error
    assert host.names("methods") == ["bee"] and host.origin(host.get("methods", "bee")).name == "one"


def test_the_last_part_of_a_name_is_a_variant(write):
    body = """
    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target="os:getcwd", variants={"cold": {}})]
    """
    host = Host([write("bee.py", body)])
    bee = host.get("methods", "bee")
    assert host.method("bee") == (bee, "") and host.method("bee:cold") == (bee, "cold")
    with pytest.raises(SkelbenchError, match="unknown variant of bee 'cld'; did you mean 'cold'"):
        host.method("bee:cld")


def test_a_failed_file_of_the_command_line_stops_any_use(write, good):
    host = Host([write("wasp.py", STING), good("a.py", "bee")])
    with pytest.raises(
        SkelbenchError, match=r"wasp\.py cannot be used \(import-error\): wasp\.py:2: ValueError: no sting"
    ):
        host.get("methods", "bee")


def test_load_turns_import_errors_into_one_error(write):
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
    with pytest.raises(SkelbenchError, match="no attribute 'OrderdDict'"):
        host.load(host.get("methods", "typo"))
    assert host.load(host.get("methods", "nested"))("ab") == {"a": None, "b": None}
    assert host.load(host.get("methods", "good"), "config") is os.getpid


def test_get_host_is_kept_and_follows_the_command_line(good):
    path = good("a.py", "bee")
    assert get_host() is get_host()
    try:
        request_files([str(path)])
        assert "bee" in get_host().names("methods")
    finally:
        request_files([])
    assert "bee" not in get_host().names("methods")


def test_a_unique_name_is_spelled_as_in_papers(write):
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
