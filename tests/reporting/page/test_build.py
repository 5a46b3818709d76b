"""The report page: its text, its figures, and that no name in it is more than text."""

import re
from base64 import b64decode

import pytest
from chromium import BINARY, run_page
from fabricated import Fabricated, correct
from hostile import write_results

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import table as linear
from skelbench.reporting.page import tables
from skelbench.reporting.page.build import build, columns_of
from skelbench.reporting.page.summary import sentences


def inputs_of(root, **options):
    return TableInputs(Host(), ResultStore(root), **options)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def page(hostile):
    inputs = inputs_of(hostile / "results")
    inputs.data_root = hostile / "data"
    return build(inputs, names=("linear", "semi", "target-control"))


def text_of(page):
    """The text that a reader sees, without scripts and styles."""
    page = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page)).replace("&#39;", "'")


def leads(root, **options):
    """The sentences on leading methods."""
    inputs = inputs_of(root, significance=True, **options)
    return [one for one in sentences([], linear(inputs), 0, 0)[1:]]


def test_a_name_is_text_and_the_page_loads_nothing(page):
    assert page.count("<script") == 1 and page.count("</script>") == 1
    assert "alert(1)" in page and not re.search(r"<img src=x|<script>alert", page)
    assert not re.search("[\u2028\u2029\u202e]", page)
    assert not re.findall(r'(?:src|href)="(?!#|data:image/svg)', page) and "default-src 'none'" in page


def test_figures_that_runs_fill_are_in_the_page(page):
    pictures = dict(re.findall(r'<figure id="figure-([\w-]+)"><img src="data:image/svg[^,]*,([^"]+)"', page))
    assert [*pictures] == ["trade-off", "scaling", "curves", "confusion"]
    assert all(b64decode(picture).rstrip().endswith(b"</svg>") for picture in pictures.values())
    assert "No finished run has an encoder" not in page


def test_the_summary_names_leaders_and_failures(page):
    text = text_of(page)
    assert (
        "5 runs of 5 methods (with variants) and 1 of controls, on 1 dataset (evil), 1 seed: 5 done, 1 failed" in text
    )
    assert "slim (8x25+1) leads with" in text and "; significantly different" in text
    assert (
        "ibot (seed 0) collapsed: features at masked tokens point nearly all in one direction (effective rank 1.12"
        in text
    )
    assert "amr (seed 0): failed" in text and "Not the paper's training" in text
    assert "1 folder skipped" in text and "The tables skip 1 run with changed settings" in text


def test_every_row_links_to_its_runs(page):
    row = re.search(r'<tr class="row">(?:(?!</tr>).)*?>SLiM<(?:(?!</tr>).)*>last<.*?</tr>', page, re.S)[0]
    values = dict(re.findall(r'data-k="(\w+)" data-v="([^"]*)"', row))
    assert float(values["knn"]) == 40 and float(values["clips_seen"]) == 40_000
    place = re.search(r'href="#(run-\d+)"', row)[1]
    run = page.split(f'<details class="table" id="{place}">')[1].split('<details class="table"')[0]
    assert (
        ". slim</b>" in run
        and "Data fingerprint" in run
        and "linear on evil half: " in run
        and '"epochs"' in run.replace("&#34;", '"')
    )


@pytest.mark.parametrize("name", ["linear", "token-budget", "scaling"])
def test_tables_begin_with_the_method_and_its_accuracy(hostile, name):
    built, _ = tables.build(inputs_of(hostile / "results"), [name])
    assert [column.header for column in columns_of(built[name])][:2] == ["Method", "Linear"]


def test_tables_of_published_numbers_are_folded(page):
    own, printed = page.split("Tables of published numbers without a run")
    assert 'id="table-linear" open' in own and 'id="table-semi">' in printed
    assert 'id="table-target-control"' not in page  # without rows


def test_a_failing_table_does_not_stop_others(hostile, monkeypatch):
    monkeypatch.setattr("skelbench.reporting.flops.table", lambda inputs: 1 / 0)
    assert tables.uncounted(Host()) == ["flops", "flops-detail"]
    built, _ = tables.build(inputs_of(hostile / "results"))
    assert {"linear", "semi"} <= built.keys() and not built.keys() & {"flops", "flops-detail"}
    built, failed = tables.build(inputs_of(hostile / "results"), ["flops", "linear"])
    assert "ZeroDivisionError" in failed["flops"] and "linear" in built


def test_filters_choose_runs_by_the_data_of_their_evaluations(tmp_path):
    made = Fabricated(tmp_path)
    for method in ("slim", "mamp"):
        made.run(method, 0.5)
    text = text_of(build(inputs_of(tmp_path, filters=Filters(method=("slim",))), names=["linear"]))
    assert "of 1 runs" in text and "only method slim" in text
    with pytest.raises(SkelbenchError, match="no run in .* matches"):
        build(inputs_of(tmp_path, filters=Filters(method=("gfp",))), names=["linear"])


# ------------------------------------------------------------------------------------------------ summary
@pytest.mark.parametrize(
    "share, kind, words", [(0.55, "doubt", "; not significantly"), (1.0, "doubt", "; significantly")]
)
def test_a_lead_is_significant_or_not(tmp_path, share, kind, words):
    made = Fabricated(tmp_path)
    made.run("slim", correct(share, 400))
    made.run("mamp", correct(0.5, 400, shift=200))
    (lead,) = leads(tmp_path)
    assert f"{words} different" in lead.text and "no untrained baseline of every seed" in lead.text
    assert lead.kind == kind and [name.split("-")[0] for name in lead.runs] == ["slim"]


def test_a_method_below_its_untrained_baseline_may_be_significant(tmp_path):
    made = Fabricated(tmp_path)
    made.run("slim", 0.2)
    made.run("untrained", 0.9)
    (lead,) = leads(tmp_path)
    assert re.search(r"−\d+\.\d points over the untrained baseline \(adjusted p = [^,]+\)", lead.text)
    assert lead.kind == "doubt"


# ------------------------------------------------------------------------------------------------ browser
@pytest.mark.skipif(BINARY is None, reason="needs chromium")
def test_a_browser_sorts_and_filters(page, tmp_path):
    press = "document.querySelector('#table-linear th[data-k=accuracy] button').click();"
    words = "const box = document.querySelector('#table-linear .filter'); box.value = 'slim last';"
    script = f"<script>{press}{words} box.dispatchEvent(new Event('input'));</script></body>"
    (tmp_path / "report.html").write_text(page.replace("</body>", script))
    dom, console = run_page(tmp_path / "report.html", tmp_path / "profile")
    assert console == []
    table = dom.split('id="table-linear"')[1].split("</table>")[0]
    values = [float(value) for value in re.findall(r'data-k="accuracy" data-v="([\d.]+)"', table)]
    assert values == sorted(values, reverse=True) and len(set(values)) > 2
    assert 'aria-sort="descending"' in table and re.search(
        r'<tr class="row" hidden="">(?:(?!</tr>).)*>MAMP<', table, re.S
    )
