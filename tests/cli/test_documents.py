"""Code blocks of the documents, word for word, as files of a user's own."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from fabricated import Fabricated
from IPython.core.interactiveshell import InteractiveShell
from small import TINY, TINY_METHOD, shorten, write_small_store
from traitlets.config import Config

from skelbench.cli.main import main
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.pipeline.studies.files import read_study
from skelbench.pipeline.studies.trials import complete
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.study_rows import Row
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

pytestmark = pytest.mark.usefixtures("shipped_plugins")

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.S)
PRINTING = re.findall(r"```python\n([^#][^`]*)```\n\n```text\n(.*?)```", TEXT, re.S)
"""Blocks with what they print below them."""
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
def folder(tmp_path, monkeypatch):
    """A folder with every file of the documents, and the small dataset; runs are made without long measurements."""
    shorten(monkeypatch)
    write_small_store(tmp_path / "data")
    for name, code in FILES.items():
        (tmp_path / name).write_text(f"{code}# {tmp_path}\n")  # equal files are imported once
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


def test_links_between_documents_work():
    root, wrong = DOCS.parent, []
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name != "generated"]
    for path in [*root.glob("*.md"), *pages]:
        for link in re.findall(r"\]\(([^)\s:]+)\)", path.read_text()):
            name, _, anchor = link.partition("#")
            there = path.parent / name if name else path
            headings = re.findall(r"(?m)^#+ (.*)$", there.read_text()) if anchor and there.exists() else []
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            if not there.exists() or (anchor and anchor not in anchors):
                wrong.append(f"{path.name}: {link}")
    assert wrong == []


def test_every_plugin_in_the_documents_is_used_in_a_test(folder):
    host = Host([folder / name for name in FILES])
    assert [plugin.problem for plugin in host.plugins if plugin.state != "ok"] == []
    others = "cli/test_variants.py", "pipeline/studies/test_engine.py"
    text = "".join((Path(__file__).parents[1] / name).read_text() for name in ("cli/test_documents.py", *others))
    assert [name for name in FILES if f"{name}" not in text] == []


@pytest.mark.parametrize("code, printed", PRINTING, ids=range(len(PRINTING)))
def test_outputs_in_the_documents_are_real(code, printed, capsys):
    exec(code, {})
    assert capsys.readouterr().out == printed


TINY_NOTEBOOKS = {
    "first_comparison": """
METHODS = ("skeletonmae",)
DECODER = {"method.decoder_dim": 16, "method.decoder_depth": 1, "method.decoder_heads": 2}
SIZES = {"encoder.dim": 16, "encoder.depth": 1, "encoder.heads": 2} | DECODER
OPTIONS = dict(dataset="small", clip_length=32, patch=8, batch_size=4, epochs=0.5, device="cpu", settings=SIZES)
PROBES = ("knn",)
""",
    "imported_checkpoint": """
DATASET, PROTOCOL = "small", "knn"
WIDTH, DEPTH, FRAMES, PATCH = 16, 1, 16, 8
""",
}
"""Small values that replace a notebook's parameters."""


@pytest.mark.parametrize("name", TINY_NOTEBOOKS)
def test_notebooks_run_and_have_outputs(name, folder, monkeypatch):
    """Every cell in a shell of this process, where torch is loaded; a line with ``!`` is the command itself."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # a shell replaces it
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))

    def command(line):
        assert main(shlex.split(shell.var_expand(line, depth=1))[1:]) == 0

    shell.system = command
    cells = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["metadata"].get("tags") for cell in code] == [["parameters"], *[None] * (len(code) - 1)]
    for number, cell in enumerate(code):
        done = shell.run_cell("".join(cell["source"]) if number else TINY_NOTEBOOKS[name])
        assert done.success, done.error_in_exec or done.error_before_exec
        kept = {output["output_type"] for output in cell["outputs"]}
        assert ("execute_result" in kept) == (done.result is not None) and "error" not in kept


def test_the_documented_method_runs_on_an_encoder_without_settings(run, folder):
    plugins = ["simclr.py", "gru.py", "best_loss.py"]
    info, lines = run("simclr", "--encoder", "gru", "--observe", "best-loss", plugins=plugins)
    assert info["spec"]["encoder"] == "gru" and info["spec"]["encoder_config"] == {}
    assert info["spec"]["optimizer_config"] == {"betas": [0.9, 0.95]} and info["spec"]["method_source"]
    (seen,) = (folder / "results").glob("simclr*/best-loss")
    smallest = min(lines, key=lambda line: line["loss"])
    assert (seen / "best.txt").read_text().split() == [str(smallest["step"]), f"{smallest['loss']:.6f}"]
    assert (seen / "run.txt").read_text() == f"{seen.parent.name}: simclr\n"
    assert (seen / "outcome.txt").read_text() == "done\n"
    assert "step" in json.loads((seen.parent / "cost.json").read_text())  # counted on a copy of the method


def test_the_documented_encoder_with_all_parts_runs(run, folder):
    host, grid = Host([folder / "deepsets.py"]), Grid(32, 8, 25)
    about = host.get("encoders", "deepsets")
    encoder = host.load(about)(host.config(about)(dim=8, depth=2), NTU25, grid)
    for visible in (None, 10):
        count = count_encoder(encoder, grid, NTU25, visible)
        assert count.closed_form == count.macs == sum(count.by_part.values())
    small = {"encoder.dim": 8, "encoder.depth": 1} | {f"method.{key}": v for key, v in TINY_METHOD["ibot"].items()}
    info, _ = run("ibot", "--encoder", "deepsets", *sets(**small), plugins=["deepsets.py"])
    assert info["spec"]["encoder_config"] == {"dim": 8, "depth": 1}


def test_the_documented_method_alternates_two_optimizers(run, folder):
    code = FILES["simclr.py"].replace('target=":SimCLR"', 'target=":AdversarialSimCLR"')
    assert code != FILES["simclr.py"]
    (folder / "turns.py").write_text(code + "\n\n" + block("class AdversarialSimCLR"))
    _, lines = run("simclr", *sets(**TINY), plugins=["turns.py"])
    assert {"loss", "fooled", "critic_loss"} <= lines[-1].keys()
    assert main(["plugins", "check", str(folder / "turns.py"), "--only", "processes", "--only", "pieces"]) == 0


def test_the_documented_parts_are_found_by_name(run, folder):
    code = FILES["simclr.py"].replace("Free(lo=0.5, hi=1.0)", "config.crop")
    code = code.replace("(Rotate(), Mirror(), BoneScale())", '(Rotate(), {"kind": "stretch", "amount": 0.1})')
    code = code.replace("count=2)", 'count=2, mask={"kind": "whole-joints", "lo": 0.5, "hi": 0.6})')
    code = code.replace("self.encoder(views", 'self.encoder(mask_RN=views["pair"].mask_RN, view=views')
    code = code.replace("BoneScale, Free, Mirror", "Crop, Free").replace(
        "    projection: int", "    crop: Crop = Free()\n    projection: int"
    )
    code = code.replace("            recipe=", '            requires=("replace-tokens",),\n            recipe=')
    (folder / "method.py").write_text(code)
    typed = {"optimizer": "rmsprop", "schedule": "polynomial", "method.crop": '{kind="beginning", lo=0.8}'}
    info, _ = run("simclr", *sets(**TINY, **typed), plugins=["method.py", "parts.py"])
    spec = info["spec"]
    assert spec["views"]["pair"]["crop"] == {"kind": "beginning", "lo": 0.8}
    assert spec["optimizer"] == "rmsprop" and spec["optimizer_config"] == {"alpha": 0.99}
    own = [name for name, version in spec["components"].items() if " " in version]  # with the hash of their file
    assert own == [
        "augmentations stretch",
        "crops beginning",
        "masks whole-joints",
        "optimizers rmsprop",
        "schedules polynomial",
    ]


def test_clips_of_the_documented_skeleton_are_stored_and_drawn(folder, capsys):
    """Thirteen joints in meters, Y up, that sway."""
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


def test_the_documented_dataset_works(folder, capsys):
    plugin = ["--plugin", str(folder / "waves.py")]
    assert main(["data", "verify", "waves", *plugin]) == 0
    store = ClipStore.open(folder / "data" / "waves-v1")
    described = Host([folder / "waves.py"]).get("datasets", "waves")
    assert set(store.meta.splits) == set(described.splits) and store.meta.default_split == described.default_split
    assert main(["data", "info", "waves", *plugin]) == 0
    assert store.fingerprint in capsys.readouterr().out


def test_the_documented_recordings_keep_their_fields(folder, monkeypatch):
    monkeypatch.chdir(folder)
    exec(block("from skelbench.data.synthetic.dataset import perform"), {})
    assert main(["data", "import", "recordings.npz", "--name", "mine"]) == 0
    assert main(["data", "verify", "mine"]) == 0
    store, given = ClipStore.open(folder / "data" / "mine"), np.load("recordings.npz")
    for field in ("label", "subject", "camera", "setup", "trial"):
        assert store.index[field].tolist() == given[field].tolist()
    assert list(store.meta.splits) == ["odd-even", "even-odd"]


def test_the_documented_table_figure_and_study_work(folder, capsys):
    plugin, picture = ["--plugin", str(folder / "speed.py")], folder / "speed.svg"
    for title, right in (("mamp", 0.6), ("skeletonmae", 0.7)):
        Fabricated(folder / "results").run(title, right)
    assert main(["compare", "--table", "speed", *plugin, "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[1:3]] == ["mamp", "skeletonmae"]
    lengths = ["--plugin", str(folder / "lengths.py"), "--format", "csv"]
    assert main(["compare", "--table", "lengths", *lengths]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:3]] == ["mamp", "skeletonmae"]
    assert main(["plot", "speed", *plugin, "-o", str(picture)]) == 0 and picture.stat().st_size > 1000
    host = Host([folder / "speed.py"])
    study = host.load(host.get("studies", "speed")).model_copy(update={"dataset": "small", "split": "half"})
    assert len(complete(study, host, folder / "data", "cpu")) == 2 * 2 * 2


def test_the_documented_rows_and_published_results_work(folder):
    (folder / "simclr.csv").write_text(block("method,variant,dataset"))
    host = Host([folder / "simclr_rows.py"])
    rows = host.load(host.get("rows", "simclr-token-budget"))
    assert [(type(row), row.title, row.tokens) for row in rows] == [(Row, "simclr", 8), (Row, "simclr", 30)]
    printed = rows[0].printed
    (figure,) = published.load(host, printed.table, method=printed.method, variant=printed.variant)
    assert figure["value"] == 75.0 and tuple(figure) == published.COLUMNS
    assert "SimCLR: NTU-60, our own run." in published.notes(host, "token-budget")


def test_the_documented_protocol_works(folder, capsys):
    small = sets(**TINY, **{f"method.{key}": value for key, value in TINY_METHOD["mamp"].items()})
    assert main(["run", "mamp", *SHAPE, *small, "--probe", "none"]) == 0
    evaluate = ["eval", "mamp", "--plugin", str(folder / "nearest_mean.py"), "--protocol", "nearest-mean"]
    assert main([*evaluate, "--set", "center=false"]) == 0
    assert main([*evaluate, "--stream", "joint,bone", "--fusion", "scores"]) == 0
    (run,) = (folder / "results").glob("mamp-*")
    records = [json.loads(path.read_text()) for path in run.glob("eval-*.json")]
    assert sorted(record["spec"]["fusion"] for record in records) == ["none", "scores"]
    assert any({"accuracy_joint", "accuracy_bone"} <= record["metrics"].keys() for record in records)


def test_the_documented_protocol_trains_the_encoder(folder, capsys):
    file = str(folder / "bias_tuning.py")
    assert main(["plugins", "check", file, "--only", "form"]) == 0, capsys.readouterr().out
    assert main(["run", "untrained", *SHAPE[:6], *sets(**TINY), "--probe", "none"]) == 0
    evaluate = ["eval", "untrained", "--plugin", file, "--protocol", "bias-tuning", "--set", "epochs=2"]
    assert main(evaluate) == 0
    assert "bias-tuning" in capsys.readouterr().out


def test_the_documented_study_file_works(folder, host):
    toml = block('name = "rates"').replace('"ntu60"', '"small"').replace('"xsub"', '"half"').replace("[0, 1]", "[0]")
    (folder / "rates.toml").write_text(toml)
    (folder / "my_method.py").write_text(block("# simclr.py"))
    study = read_study(folder / "rates.toml")
    trials = complete(study, host, folder / "data", "cpu")
    assert len(trials) == 3 * 2 * 2 + 1 and trials[-1].resolved.setting == "native"
    assert {trial.resolved.spec.train.weight_decay for trial in trials} == {0.05}
