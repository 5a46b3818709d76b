"""A protocol's own metrics: by their label, in percent if the protocol says so, and apart from what all have."""

from skelbench.records.measures import Measure, measured, own, sentence

RECORD = {
    "metrics": {
        "accuracy": 0.5,
        "n_test": 8.0,
        "macro_accuracy": 0.4,
        "train_loss": 0.1,
        "map": 0.452,
        "spread": 12.34567,
    },
    "measures": {"map": {"label": "mAP", "share": True}},
}


def test_what_a_protocol_measured_besides_accuracy():
    assert sentence(own(RECORD).values()) == "mAP 45.2%, spread 12.35"
    assert measured(RECORD)["macro_accuracy"] == (0.4, Measure("mean class accuracy", share=True))
    assert measured(RECORD)["spread"] == (12.34567, Measure("spread"))
    assert not {"accuracy", "n_test"} & measured(RECORD).keys()


def test_a_record_from_before_there_were_measures():
    assert own({"metrics": {"accuracy": 0.5, "n_test": 8.0, "accuracy_joint": 0.4}}) == {}
