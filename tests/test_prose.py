"""The lint of the text finds one made offense per rule, and accepts plain text."""

import pytest

from benchmarks.prose import code_offenses, offenses, page_offenses

LONG = "This is a word " * 9 + "of a long sentence"


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('def f():\n    """Of a clip."""\n', "2: docstring opens with 'Of'"),
        ("x = 1\n# both methods cannot be well told\n# apart here\n", "2: idiom 'told apart'"),
        ('raise ValueError("the run goes on without a word")\n', "1: idiom 'goes on'"),
        ("x = 1\nmade = 2\n", "2: variable 'made'"),
    ],
)
def test_an_offense_in_code_is_found_with_its_line(source, rule):
    (found,) = [f"{line}: {text}" for line, text in code_offenses(source, names=True)]
    assert found.startswith(rule)
    if "variable" in rule:
        assert not list(code_offenses(source, names=False))


@pytest.mark.parametrize(
    ("page", "rule"),
    [
        (f"# Title\n\n{LONG}.\n", "3: sentence of 40 words"),
        ("# Title\n\nWe saw 1, 2.5, 3, 40 and 1,000 clips.\n", "3: 5 numbers in a paragraph"),
        ("Text.\n\n- Both are well told apart.\n", "3: idiom 'told apart'"),
        (f"{LONG}.\n", "1: 40 words a sentence"),
        ("Short words only. " * 600, "1: page of 1,800 words"),
    ],
)
def test_an_offense_in_a_page_is_found_with_its_line(page, rule):
    assert any(f"{line}: {text}".startswith(rule) for line, text in page_offenses(page))


def test_code_and_tables_of_a_page_are_not_checked(tmp_path):
    plain = f"# Title\n\n```text\n{LONG}\n```\n\n| 1 | 2 | 3 | 4 | 5 |\n\nA run of `x1 2 3 4 5 6` is short.\n"
    assert not list(page_offenses(plain))
    (tmp_path / "README.md").write_text(plain)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text('"""How it works."""\n')
    (line,) = offenses(tmp_path)
    assert line.startswith("plugins/mine.py:1: docstring opens")
