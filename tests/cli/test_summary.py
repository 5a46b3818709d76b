"""What a run says at its end is typed as it stands, wherever it is."""

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


def test_the_next_commands_name_encoder_plugins_and_places(far, tmp_path, capsys):
    _, run, made = far
    made = replace(made, spec=made.spec.model_copy(update={"encoder": "bigru"}))
    print_summary([(run, {})], None, made, tmp_path / "my data")
    again, *others = (
        shlex.split(line.partition("  #")[0]) for line in capsys.readouterr().out.splitlines() if "  skelbench " in line
    )
    told = dict(zip(again, again[1:]))
    assert told["--encoder"] == "bigru" and told["--plugin"] == "my waves.py"
    assert told["--data-root"] == str(tmp_path / "my data")
    for command in (again, *others):
        assert command[-2:] == ["--results", str(tmp_path / "my results")]


def test_a_data_set_that_is_not_here_may_be_a_plugin_s(far, tmp_path):
    session, run, _ = far
    spec = eval_spec(session.host, run, "knn")
    with pytest.raises(SkelbenchError, match="made with --plugin 'my waves.py': if that makes the data set, give it"):
        evaluate(replace(session, data_root=tmp_path / "none"), run, spec)
