"""The recorded command, and the metrics of a protocol."""

import sys

from skelbench.records.environment import command
from skelbench.records.measures import Measure, measured, own, sentence

RECORD = {
    "metrics": {
        "accuracy": 0.5,
        "n_test": 8.0,
        "macro_accuracy": 0.4,
        "train_loss": 0.1,
        "map": 0.452,
        "gap": 12.34567,
    },
    "measures": {"map": {"label": "mAP", "share": True}},
}


def test_the_command_can_be_repeated_and_names_no_folder_of_this_machine(monkeypatch):
    words = ["run", "slim", "--results", "/home/me/a b", "--tokens", "8", "--data-root=/data", "--set", "x=[a b]"]
    for program in ("/venv/bin/skelbench", "/site-packages/skelbench/__main__.py"):
        monkeypatch.setattr(sys, "argv", [program, *words])
        assert command() == "skelbench run slim --tokens 8 --set 'x=[a b]'"
    monkeypatch.setattr(sys, "argv", ["/site-packages/mine/__main__.py", "--fast"])
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3", "-m", "mine", "--fast"])
    assert command() == "python -m mine --fast"


def test_metrics_besides_accuracy_have_labels_and_formats():
    assert sentence(own(RECORD).values()) == "mAP 45.2%, gap 12.35"
    assert measured(RECORD)["macro_accuracy"] == (0.4, Measure("mean class accuracy", share=True))
    assert not {"accuracy", "n_test"} & measured(RECORD).keys()
    assert own({"metrics": {"accuracy": 0.5, "n_test": 8.0, "accuracy_joint": 0.4}}) == {}  # before there were measures
