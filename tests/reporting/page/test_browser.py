"""The pages in a browser: what is shown is drawn, sorted and filtered there, without an error and without a request."""

import threading

import pytest
from chromium import BINARY, Browser
from hostile import EVIL

from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page.build import build
from skelbench.reporting.page.serve import open_server

pytestmark = pytest.mark.skipif(BINARY is None, reason="needs chromium")
SHOWN = "[...document.querySelectorAll('#table-linear tr.row:not([hidden])')]"
METHODS = f"{SHOWN}.map((row) => row.cells[0].textContent)"
PRESS = "document.querySelector('#table-linear th[data-k=\"accuracy\"] button').click()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_the_report(browser, hostile):
    inputs = TableInputs(Host(), ResultStore(hostile / "results"))
    inputs.data_root = hostile / "data"
    path = hostile / "report.html"
    path.write_text(build(inputs, names=["linear"]))
    browser.open(path.as_uri(), 1280, "document.documentElement.dataset.drawn === 'yes'")

    # drawn, from the library inside the page, and nothing said about an error
    assert browser.run("document.querySelectorAll('figure:not([hidden]) .main-svg').length") >= 4
    assert browser.said == []

    # sorting: as it was, highest first, lowest first, as it was
    before = browser.run(METHODS)
    browser.run(PRESS)
    assert browser.run(METHODS)[0] == "slim"
    values = f"{SHOWN}.map((row) => Number(row.querySelector('[data-k=accuracy]').dataset.v))"
    falling = browser.run(values)
    assert falling == sorted(falling, reverse=True) and len(set(falling)) > 2
    browser.run(PRESS)
    assert browser.run(values) == sorted(falling)
    assert browser.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    browser.run(PRESS)
    assert browser.run(METHODS) == before

    # filtering, every word somewhere in the row
    typed = "(text) => { const box = document.querySelector('#table-linear .filter'); box.value = text; "
    typed += "box.dispatchEvent(new Event('input')); }"
    browser.run(f"({typed})('MAMP 8x25')")
    assert browser.run(METHODS) == ["mamp"]
    browser.run(f"({typed})('')")
    assert browser.run(METHODS) == before

    # where a number comes from, with names as they are
    browser.run(
        f"{SHOWN}.find((row) => row.cells[0].textContent === 'slim').querySelector('[data-k=accuracy]').click()"
    )
    said = browser.run("document.getElementById('origin').open && document.getElementById('origin').textContent")
    assert "Recorded as linear" in said and "Fingerprint" in said and "alert(1)" in said
    assert browser.run("document.querySelectorAll('#origin img, #origin script').length") == 0
    browser.run("document.getElementById('close').click()")

    # dark, and narrow without a page that is wider than the window
    browser.run("[0, 1].forEach(() => document.getElementById('theme').click())")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(15, 23, 42)"
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    browser.until("innerWidth === 390")
    assert browser.run("document.documentElement.scrollWidth") <= 390

    # nothing ran that a name brought along, and nothing was asked for
    assert browser.said == [] and "alert" in EVIL
    assert [url for url in browser.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]

    # even a script inside the page reaches nobody
    asked = "fetch('https://skelbench.invalid/x').then(() => 'sent', () => 'refused')"
    assert browser.run(asked) == "refused"
    assert any("Content Security Policy" in text for text in browser.said)


def test_the_live_page(browser, hostile):
    browser.said.clear()
    with open_server(ResultStore(hostile / "results"), 0, Host()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            browser.open(f"{server.address}/", 1280, "document.querySelectorAll('.card').length > 0")
            cards = browser.run("[...document.querySelectorAll('.card h3')].map((card) => card.textContent)")
            assert len(cards) == 6 and any(card.startswith("slim, 8 tokens") for card in cards)
            assert browser.run("document.querySelectorAll('.card canvas').length") >= 2
            assert browser.run("document.querySelectorAll('.card img, .card script').length") == 0
            assert browser.said == []
            assert {url.split("/")[2] for url in browser.requests if url.startswith("http")} == {server.address[7:]}
            browser.call("Page.navigate", url="about:blank")
        finally:
            server.shutdown()
            thread.join()
