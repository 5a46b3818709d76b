"""Earlier, British names of settings: users may type them, records may contain them, and ids do not change."""

from skelbench.core.spec import RunSpec, TrainSpec, validated
from skelbench.core.spelling import american, earlier
from skelbench.evaluation.linear import Linear
from skelbench.pipeline.request import full_key
from skelbench.plugin.host import Host


def test_earlier_names_of_settings_work():
    assert validated(TrainSpec, {"centre": "body", "batch_norm": "synchronised"}, "train") == TrainSpec(
        center="body", batch_norm="synchronized"
    )
    assert not validated(Linear, {"standardise": False}, "protocol linear").standardize
    assert (
        full_key("train.centre", {"train": {"center"}}) == full_key("centre", {"train": {"center"}}) == "train.center"
    )


def test_earlier_names_of_variants_and_studies_work():
    host = Host()
    assert host.method("slim:centre-none")[1] == "center-none"
    assert host.get("studies", "centring").name == "centering"


def test_ids_are_hashes_of_the_earlier_names():
    spec = RunSpec(method="slim", train=TrainSpec(center="body"), views={"all": {"crop": {"kind": "center"}}})
    before = earlier(spec.model_dump(mode="json"))
    assert before["train"]["centre"] == "body" and before["views"]["all"]["crop"]["kind"] == "center"
    assert RunSpec.model_validate(american(before)) == spec and spec.id == "31a2b4dd4775"


def test_names_of_datasets_are_not_translated():
    record = {"data": {"name": "normalised", "split": "centring"}, "train": {"batch_norm": "synchronised"}}
    assert american(record) == record | {"train": {"batch_norm": "synchronized"}} and earlier(record) == record


def test_a_setting_of_a_plugin_may_have_a_british_name():
    class Own(Linear):
        centre: bool = True

    assert not Own.model_validate(american({"centre": False})).centre
