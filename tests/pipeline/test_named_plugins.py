"""``plugins = [...]`` in the file of a run or study: relative to the file, with the sentences of --plugin."""

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import read_config
from skelbench.pipeline.studies.files import read_study
from skelbench.plugin.host import request_more

STUDY = 'preset = "quick"\n[grid]\nmethod = ["buzz"]\n'
READERS = {
    "run.toml": lambda path: read_config(path)[0]["plugins"],
    "study.toml": lambda path: read_study(path).plugins,
}
BUZZ = "from skelbench.views import Augment\n\n\nclass Buzz(Augment):\n    kind = 'buzz'\n"


def write(folder, name, said):
    path = folder / name
    path.write_text(said + (STUDY if name == "study.toml" else 'preset = "quick"\n'))
    return path


@pytest.mark.parametrize("name", READERS)
def test_plugin_files_are_relative_to_the_file_that_names_them(tmp_path, name, monkeypatch):
    (tmp_path / "buzz.py").write_text(BUZZ)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    files = READERS[name](write(tmp_path, name, 'plugins = ["buzz.py"]\n'))
    assert list(files) == [str(tmp_path / "buzz.py")]
    assert "buzz" in request_more(files).names("augmentations")
    assert request_more(files).plugins[-1].requested  # so a study's trials get it as --plugin
    assert list(READERS[name](write(tmp_path, name, ""))) == []


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "said,sentence", [('plugins = ["wasp.py"]\n', "no such file"), ('plugins = "wasp.py"\n', "is not a list")]
)
def test_wrong_plugin_files_are_errors(tmp_path, name, said, sentence):
    path = write(tmp_path, name, said)
    with pytest.raises(SkelbenchError, match=sentence):
        READERS[name](path)
