from functools import cache

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.published import COLUMNS

COUNTS = {
    "coverage": 4, "degraded_pretraining": 20, "flops": 15, "flops_supp": 21, "linear": 86, "objective": 10,
    "retrieval": 20, "robustness": 24, "saa": 14, "semi": 42, "stm": 14, "target_control": 15, "token_budget": 24,
    "transfer": 16,
}  # fmt: skip
REPORTED = {"reported-linear": 59, "reported-semi": 4, "reported-retrieval": 5}


@cache
def shipped():
    return Host()


def load(name, **filters):
    return published.load(shipped(), f"slim-{name}", **filters)


def test_every_published_table_is_complete():
    counts = {name: len(rows) for name, rows in published.tables(shipped()).items()}
    assert counts == {f"slim-{name}": count for name, count in COUNTS.items()} | REPORTED


@pytest.mark.parametrize("name", COUNTS)
def test_rows_are_well_formed(name):
    rows = load(name)
    keys = [tuple(row[key] for key in ("method", "variant", "dataset", "split", "protocol", "metric")) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert tuple(row) == COLUMNS and all(value is not None for key, value in row.items() if key != "std")
        assert (
            row["method"]
            and (row["dataset"] or name == "coverage")
            and row["protocol"]
            and row["source"].startswith("SLiM paper, ")
        )
        assert row["protocol"] in {"linear", "finetune", "semi", "knn", "inference", "pretraining"}
        if row["metric"] == "accuracy":
            assert 20 < row["value"] < 100
        elif name == "coverage":
            assert row["metric"].startswith(("coverage", "masks"))
        elif row["metric"] in {"mfp_loss_start", "mfp_loss_end", "rank_masked"}:
            assert name == "target_control" and row["protocol"] == "pretraining"
        else:
            assert row["metric"].endswith("_gflops") or row["metric"] in {"reduction", "batch_size"}


def value(table, **filters):
    (row,) = load(table, **filters)
    return row["value"]


def test_filters():
    assert value("linear", method="SLiM", dataset="ntu60", split="xview") == 93.2
    assert len(load("linear", method="PTSL")) == 5 and load("linear", method="nobody") == []
    assert load("target_control", variant="prototypes, cross-entropy", split="xsub")[0]["std"] == 0.11


def test_unknown_names():
    with pytest.raises(SkelbenchError, match="did you mean 'slim-linear'"):
        load("liner")


def test_results_of_other_papers_name_source_and_differences():
    for name in REPORTED:
        for row in published.load(shipped(), name):
            assert row["source"] and row["note"] and not row["source"].startswith("SLiM"), row
    keys = [tuple(row[key] for key in COLUMNS[:6]) for name in REPORTED for row in published.load(shipped(), name)]
    assert len(set(keys)) == len(keys)


def test_mixed_protocols_are_marked():
    finetuned = {row["method"] for row in load("transfer", protocol="finetune")}
    assert finetuned == {"ISC", "CMD", "MacDiff", "SkeletonMAE", "MAMP", "S-JEPA"}
    assert all("fine-tuning" in row["note"] for row in load("transfer", protocol="finetune"))
    assert all("bone and motion" in row["note"] for row in load("retrieval", method="UmURL"))
    assert all("80.2" in row["note"] for row in load("linear", method="HSP"))
    for row in load("token_budget", metric="encoder_gflops"):
        assert ("does not follow" in row["note"]) == (row["value"] in (3.59, 8.36))


def test_a_damaged_file_is_an_error(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(",".join(COLUMNS) + "\na,b,c,d,e,accuracy,nan,,source,\n")
    with pytest.raises(SkelbenchError, match="not a finite number"):
        published._read(str(path))
