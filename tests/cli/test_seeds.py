"""``skelbench run --seeds``: a run per seed, and the mean over them."""

import re

import pytest
from small import TINY

from skelbench.cli.main import main
from skelbench.records.store import ResultStore

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def command(*more):
    sets = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    shape = ["--dataset", "small", "--clip-length", "32", "--patch", "8", "--epochs", "1", "--batch-size", "4"]
    return ["run", "skeletonmae", *shape, *sets, "--set", "method.decoder_dim=16", "--probe", "knn", *more]


def trained(results):
    return {run.spec.seed: run for run in ResultStore(results).read() if run.spec.method == "skeletonmae"}


def test_every_seed_is_a_run_and_their_mean_is_printed(small, capsys):
    assert main(command("--seeds", "1,0")) == 0
    shown = capsys.readouterr().out
    runs = trained(small / "results")
    assert set(runs) == {0, 1} and all(run.outcome == "done" for run in runs.values())
    shares = [runs[seed].records()[0]["metrics"]["accuracy"] for seed in (1, 0)]
    end = shown[shown.index("Mean over 2 pre-training seeds (1, 0)") :]
    assert f"{50 * sum(shares):.1f}% ({100 * shares[0]:.1f}, {100 * shares[1]:.1f})" in end
    assert re.search(r"untrained .*\) +[+-]\d+\.\d \[", end) and re.search(r"raw +\d+\.\d% +[+-]\d", end)
    assert "2 subjects are too few to trust" in end

    times = {seed: (run.path / "encoder.safetensors").stat().st_mtime_ns for seed, run in runs.items()}
    assert main(command("--seeds", "1,0")) == 0  # everything is there
    again = capsys.readouterr().out
    assert again[again.index("Mean over") :] == end
    assert times == {
        seed: (run.path / "encoder.safetensors").stat().st_mtime_ns for seed, run in trained(small / "results").items()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "0,1", "--seed", "2"], "contradict each other"),
        (["--seeds", "0,x"], "is not a list of whole numbers"),
    ],
)
def test_bad_seeds_are_one_error(small, fails, arguments, said):
    fails(command(*arguments), said)
    assert not (small / "results").exists()
