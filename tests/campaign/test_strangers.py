"""A short part of the campaign: nothing of a stranger's runs, is written elsewhere or gives an output another shape."""

import pytest

from tests.campaign import strangers, words


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return strangers.build(tmp_path_factory.mktemp("strangers") / "base")


@pytest.mark.parametrize("case", [case for case in strangers.cases() if case.quick], ids=lambda case: case.name)
def test_files_of_strangers_do_nothing(case, base, tmp_path):
    assert strangers.play(case, base, tmp_path / "case") == []


def test_the_watcher_sees_what_is_forbidden(base, tmp_path):
    """A plugin of the user's own is a stranger's in its eyes."""
    case = strangers.Case("plugin", lambda stage: ["plugins", "list", "--plugin", str(stage.outside / "evil.py")])
    found = strangers.play(case, base, tmp_path / "case")
    assert any("exec of" in one for one in found) and "code of the attacker's ran" in found


def test_words_of_strangers_stay_words():
    chosen = (r"\\input{x}", "[1cm]x", "[x](javascript:x)", "=1+1", "\r=1", "</script><script>x//", "\x1b[31m", "$x^2$")
    assert [one for one in words.fallen(chosen) if one[2]] == []
