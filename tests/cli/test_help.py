"""Help texts of the command line."""

import shlex

import pytest

from skelbench.cli.help_texts import EXAMPLES
from skelbench.cli.main import commands, main, split_globals


def parsed(words):
    """The command of ``words``, its name, and the context of its parsed options."""
    command, name = commands(), []
    while words and words[0] in getattr(command, "commands", {}):
        command, name = command.commands[words[0]], [*name, words[0]]
        words = words[1:]
    return command, " ".join(name), command.make_context(name[-1], [*words])


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_are_commands_that_parse(path):
    for example in EXAMPLES[path]:
        words, *_ = split_globals(shlex.split(example))
        if "--help" not in words:
            assert parsed(words)[1] == path or not path


def leaves(command, path=""):
    below = getattr(command, "commands", {})
    yield from (leaf for name, one in below.items() for leaf in leaves(one, f"{path} {name}".strip()))
    if not below:
        yield path, command


def test_every_command_has_examples_and_named_values_and_long_ones_have_panels():
    for path, command in leaves(commands()):
        assert EXAMPLES[path], path
        options = [param for param in command.params if param.param_type_name == "option"]
        for param in options:
            assert param.help, (path, param.name)
            kind = param.display_type_rich(None)
            assert "str" not in kind and "int" not in kind and "bool" not in kind, (path, param.name)
            assert param.rich_help_panel or len(options) <= 8, (path, param.name)


def test_help_shows_examples_and_no_type_of_a_flag(capsys):
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert "skelbench run slim --tokens 8 --preset quick" in text
    assert "<bool>" not in text and text.index("Data") < text.index("--dataset") < text.index("Machine")
