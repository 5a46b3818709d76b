"""What is recorded of the process that made a run or an evaluation."""

import shlex
import sys

import pytest

from skelbench.records.environment import command


@pytest.mark.parametrize("program", ["/venv/bin/skelbench", "/site-packages/skelbench/__main__.py"])
def test_the_command_can_be_typed_again(monkeypatch, program):
    words = ["run", "slim", "--set", 'train.degrade=[{kind="zero-fill", share=0.2}]']
    monkeypatch.setattr(sys, "argv", [program, *words])
    assert command().startswith("skelbench run slim --set ") and shlex.split(command()) == ["skelbench", *words]


def test_a_record_does_not_say_where_things_lie_on_this_machine(monkeypatch):
    words = ["run", "slim", "--results", "/home/me/a b", "--tokens", "8", "--data-root=/data", "--set", "x=--results"]
    monkeypatch.setattr(sys, "argv", ["/venv/bin/skelbench", *words])
    assert command() == "skelbench run slim --tokens 8 --set x=--results"


def test_another_program_is_not_called_skelbench(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/site-packages/mine/__main__.py", "--fast"])
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3", "-m", "mine", "--fast"])
    assert command() == "python -m mine --fast"
