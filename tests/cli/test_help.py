"""Help texts of the command line."""

import shlex

import pytest

from skelbench.cli.help_texts import EXAMPLES
from skelbench.cli.main import commands, split_globals


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
            assert param.help and param.display_type_rich(None) not in ("<str>", "<int>", "<bool>"), (path, param.name)
            assert param.rich_help_panel or len(options) <= 8, (path, param.name)
