"""The next commands that a run prints can be typed as printed, wherever the run is."""

import shlex
from dataclasses import replace

import pytest

from skelbench.cli.summary import print_summary
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain


@pytest.fixture
def far(shipped_plugins, session, resolved, tmp_path):
    """A run with a plugin, in places of its own with spaces in their names."""
    session = replace(session, results=type(session.results)(tmp_path / "my results"))
    made = resolved("untrained")
    run = pretrain(session, made)
    run.update(environment={**run.info["environment"], "command": "skelbench run untrained --plugin 'my waves.py'"})
    return session, run, made


def test_the_next_commands_repeat_options_and_name_places(far, tmp_path, capsys):
    _, run, made = far
    print_summary([(run, {})], None, made, tmp_path / "my data")
    again, *others = (
        shlex.split(line.partition("  #")[0]) for line in capsys.readouterr().out.splitlines() if "  skelbench " in line
    )
    assert again[2] != "untrained" and again[3:7] == [
        "--plugin",
        "my waves.py",
        "--data-root",
        str(tmp_path / "my data"),
    ]
    for command in (again, *others):
        assert command[-2:] == ["--results", str(tmp_path / "my results")]


def test_a_data_set_that_is_not_here_may_be_a_plugin_s(far, tmp_path):
    session, run, _ = far
    spec = eval_spec(session.host, run, "knn")
    with pytest.raises(SkelbenchError, match="made with --plugin 'my waves.py': if that makes the data set, give it"):
        evaluate(replace(session, data_root=tmp_path / "none"), run, spec)
