"""Code blocks of the documents, word for word, as files of a user's own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from small import TINY, TINY_METHOD, write_small_store

from skelbench.cli.main import main
from skelbench.plugin.host import Host
from skelbench.report import published
from skelbench.report.study_rows import Row
from skelbench.studies.files import read_study
from skelbench.studies.trials import complete

pytestmark = pytest.mark.usefixtures("shipped_plugins")

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", "".join(path.read_text() for path in sorted(DOCS.glob("*.md"))), re.S)
FILES = {named[1]: code for _, code in BLOCKS if (named := re.match(r"# (\w+\.py)\n", code))}
"""Blocks that are whole files, by their names."""
SHAPE = ["--dataset", "small", "--clip-length", "32", "--patch", "8", "--batch-size", "4", "--epochs", "0.5"]


def block(start):
    """The only block with a line that begins with ``start``."""
    (code,) = [code for _, code in BLOCKS if re.search(f"^{re.escape(start)}", code, re.MULTILINE)]
    return code


def sets(**settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture
def folder(tmp_path):
    """A folder with every file of the documents, and the small data set."""
    write_small_store(tmp_path / "data")
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    return tmp_path


@pytest.fixture
def run(folder):
    """``run("simclr", "--encoder", "gru", plugins=[...])`` trains and probes; returns run.json and the logged lines."""

    def make(method, *more, plugins):
        files = [part for name in plugins for part in ("--plugin", str(folder / name))]
        assert main(["run", method, *files, *SHAPE, "--probe", "none", *more]) == 0
        (path,) = (folder / "results").glob(f"{method.partition(':')[0]}*/run.json")
        lines = path.with_name("metrics.jsonl").read_text().splitlines()
        return json.loads(path.read_text()), [json.loads(line) for line in lines]

    return make


def test_links_between_documents_lead_somewhere():
    root, wrong = DOCS.parent, []
    for path in [*root.glob("*.md"), *DOCS.glob("*.md")]:
        for link in re.findall(r"\]\(([^)\s:]+)\)", path.read_text()):
            name, _, anchor = link.partition("#")
            there = path.parent / name if name else path
            headings = re.findall(r"(?m)^#+ (.*)$", there.read_text()) if anchor and there.exists() else []
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            if not there.exists() or (anchor and anchor not in anchors):
                wrong.append(f"{path.name}: {link}")
    assert wrong == []


def test_every_file_of_the_documents_announces_something_and_is_used_here(folder):
    host = Host([folder / name for name in FILES])
    assert [plugin.problem for plugin in host.plugins if plugin.state != "ok"] == []
    text = Path(__file__).read_text() + (Path(__file__).parent / "test_variants.py").read_text()
    assert [name for name in FILES if f"{name}" not in text] == []


def test_the_method_runs_on_an_encoder_without_settings(run):
    info, lines = run("simclr", "--encoder", "gru", plugins=["simclr.py", "gru.py"])
    assert info["spec"]["encoder"] == "gru" and info["spec"]["encoder_config"] == {}
    assert info["spec"]["optimizer_config"] == {"betas": [0.9, 0.95]} and info["spec"]["method_source"]
    assert lines[-1]["loss"] > 0


def test_its_optimiser_and_schedule_are_chosen_on_the_command_line(run):
    typed = {"optimizer": "sgd", "optimizer.momentum": 0.95, "schedule": "step"}
    info, _ = run("simclr", *sets(**TINY, **typed), plugins=["simclr.py"])
    assert (info["spec"]["optimizer"], info["spec"]["schedule"]) == ("sgd", "step")
    assert info["spec"]["optimizer_config"]["momentum"] == 0.95 and "betas" not in info["spec"]["optimizer_config"]


def test_two_optimisers_take_turns(run, folder):
    code = FILES["simclr.py"].replace('target=":SimCLR"', 'target=":AdversarialSimCLR"')
    assert code != FILES["simclr.py"]
    (folder / "turns.py").write_text(code + "\n\n" + block("class AdversarialSimCLR"))
    _, lines = run("simclr", *sets(**TINY), plugins=["turns.py"])
    assert {"loss", "fooled", "critic_loss"} <= lines[-1].keys()


def test_parts_of_ones_own_are_found_by_their_names(run, folder):
    code = FILES["simclr.py"].replace("Free(lo=0.5, hi=1.0)", "config.crop")
    code = code.replace("(Rotate(), Mirror(), BoneScale())", '(Rotate(), {"kind": "stretch", "amount": 0.1})')
    code = code.replace("count=2)", 'count=2, mask={"kind": "moments", "lo": 0.5, "hi": 0.6})')
    code = code.replace("self.encoder(views", 'self.encoder(mask_RN=views["pair"].mask_RN, view=views')
    code = code.replace("BoneScale, Free, Mirror", "Crop, Free").replace(
        "    projection: int", "    crop: Crop = Free()\n    projection: int"
    )
    code = code.replace("            recipe=", '            requires=("replace-tokens",),\n            recipe=')
    (folder / "method.py").write_text(code)
    typed = {"optimizer": "rmsprop", "method.crop": '{kind="beginning", lo=0.8}'}
    info, _ = run("simclr", *sets(**TINY, **typed), plugins=["method.py", "parts.py"])
    spec = info["spec"]
    assert spec["views"]["pair"]["crop"] == {"kind": "beginning", "lo": 0.8}
    assert spec["optimizer"] == "rmsprop" and spec["optimizer_config"] == {"alpha": 0.99}
    own = [name for name, version in spec["components"].items() if " " in version]  # with the hash of their file
    assert own == ["augmentations stretch", "crops beginning", "masks moments", "optimizers rmsprop"]


def test_clips_of_a_skeleton_of_ones_own_are_stored_and_drawn(folder, capsys):
    """Thirteen joints in metres, Y up, that sway."""
    half_JC = ((0.2, 1.4, 0), (0.6, 1.1, 0)), ((0.1, 0.9, 0), (0.1, 0.5, 0.1), (0.2, 0.0, 0))
    sides = [(x * side, y, z) for limb in half_JC for side in (1, -1) for x, y, z in limb]
    pose_JC = np.array([(0, 1.0, 0), (0, 1.5, 0), (0, 1.7, 0), *sides])
    joints = pose_JC + 0.1 * np.sin(np.arange(400)[:, None, None] / 5) * np.linspace(0, 1, 13)[:, None]
    path, plugin = folder / "recordings.npz", str(folder / "stick13.py")
    offsets, labels = np.arange(0, 401, 20), np.arange(20) % 2
    np.savez(path, joints=joints.astype(np.float32), offsets=offsets, label=labels)
    assert main(["data", "import", str(path), "--name", "mine", "--plugin", plugin]) == 0
    assert main(["data", "verify", "mine", "--plugin", plugin]) in (0, 3)
    assert main(["data", "show", "mine", "--plugin", plugin, "-o", str(folder / "clip.png")]) == 0
    capsys.readouterr()
    assert main(["data", "info", "mine", "--plugin", plugin]) == 0
    assert "stick13" in capsys.readouterr().out


def test_rows_and_published_figures_of_ones_own(folder):
    (folder / "simclr.csv").write_text(block("method,variant,dataset"))
    host = Host([folder / "simclr_rows.py"])
    rows = host.load(host.get("rows", "simclr-token-budget"))
    assert [(type(row), row.title, row.tokens) for row in rows] == [(Row, "simclr", 8), (Row, "simclr", 30)]
    printed = rows[0].printed
    (figure,) = published.load(host, printed.table, method=printed.method, variant=printed.variant)
    assert figure["value"] == 75.0 and tuple(figure) == published.COLUMNS
    assert "SimCLR: NTU-60, our own run." in published.notes(host, "token-budget")


def test_a_protocol_of_ones_own(folder, capsys):
    small = sets(**TINY, **{f"method.{key}": value for key, value in TINY_METHOD["mamp"].items()})
    assert main(["run", "mamp", *SHAPE, *small, "--probe", "none"]) == 0
    evaluate = ["eval", "mamp", "--plugin", str(folder / "nearest_mean.py"), "--protocol", "nearest-mean"]
    assert main([*evaluate, "--set", "centre=false"]) == 0
    assert main([*evaluate, "--stream", "joint,bone", "--fusion", "scores"]) == 0
    (run,) = (folder / "results").glob("mamp-*")
    records = [json.loads(path.read_text()) for path in run.glob("eval-*.json")]
    assert sorted(record["spec"]["fusion"] for record in records) == ["none", "scores"]
    assert any({"accuracy_joint", "accuracy_bone"} <= record["metrics"].keys() for record in records)


def test_a_study_of_ones_own(folder, host):
    toml = block('name = "rates"').replace('"ntu60"', '"small"').replace('"xsub"', '"half"').replace("[0, 1]", "[0]")
    (folder / "rates.toml").write_text(toml)
    study = read_study(folder / "rates.toml")
    trials = complete(study, host, folder / "data", "cpu")
    assert len(trials) == 3 * 2 * 2 + 1 and trials[-1].resolved.setting == "native"
    assert {trial.resolved.spec.train.weight_decay for trial in trials} == {0.05}
