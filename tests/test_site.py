"""The built site, walked as files and in a headless browser; `make book` builds it, without it nothing is walked.

Screenshots of every page, at two widths and in both themes, are left in _build/screenshots.
"""

import base64
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from held_out import BY_DOMAIN, domains_shown
from made import PACS

TOP = Path(__file__).resolve().parents[1]
HTML = TOP / "_build" / "html"
SHOTS = TOP / "_build" / "screenshots"
WIDTHS = {"wide": 1280, "phone": 400}
PICTURES = {"data": 2, "problem": 1}  # images and drawings, which show no numbers
pytestmark = pytest.mark.pages
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

if not (HTML / "index.html").exists():
    pytest.skip("the book is not built: run `make book` first", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def current():
    """The site, rebuilt if something changed since."""
    command = [Path(sys.executable).with_name("jupyter-book"), "build", "book/"]
    built = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]


def pages() -> list[Path]:
    return sorted(path for path in HTML.glob("*.html") if path.stem not in ("index", "genindex", "py-modindex"))


class Links(HTMLParser):
    """Addresses a page loads, addresses it links to, the anchors it has, and images with their alternative text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.images: list[dict] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") not in ("index", "search", "next", "prev", "author", "canonical"):
            self.loaded.append(given["href"])
        if tag == "a" and given.get("href"):
            self.linked.append(given["href"])
        if tag == "img":
            self.images.append(given)


links_of = functools.cache(Links)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(page):
    links = links_of(page)
    for address in links.loaded + links.linked:
        parts = urlparse(address)
        if parts.scheme in ("data", "mailto", "javascript"):
            continue
        if parts.scheme or parts.netloc:
            assert address not in links.loaded, f"{page.name} loads {address}"
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        assert target.exists(), f"{page.name} points to {address}, which is not there"
        if parts.fragment and target.suffix == ".html":
            assert unquote(parts.fragment) in links_of(target).anchors, f"{page.name} points to {address}: no anchor"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_image_has_alternative_text_and_every_figure_its_numbers(page):
    html = page.read_text()
    for image in links_of(page).images:
        assert "alt" in image and (image["alt"] or "logo" in image.get("class", "")), f"{page.name}: {image}"
    pictures = html.count('<img class="hypo-figure only-dark" data-picture')
    assert pictures <= PICTURES.get(page.stem, 0), f"{page.name} has a figure without its numbers"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_no_table_is_empty(page):
    for body in re.findall(r"<tbody.*?</tbody>", page.read_text(), re.DOTALL):
        assert "<td" in body, f"{page.name} has a table without a row"


@pytest.mark.parametrize("page", BY_DOMAIN)
def test_geometry_is_shown_with_every_domain_of_pacs_held_out(page):
    html = (HTML / f"{page}.html").read_text()
    for name in BY_DOMAIN[page]:
        assert {*domains_shown(html, name)} == {*PACS}, name
    assert "pacs-photo-hypo-cpu-s0" in html


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(HTML))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    if not (CHROMIUM and DRIVER):
        pytest.skip("no chromium with its driver here: on Debian `apt install chromium chromium-driver`")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    for limit in (driver.set_script_timeout, driver.set_page_load_timeout):
        limit(3600)  # a busy machine takes its time
    yield driver
    driver.quit()


def requests(browser) -> dict[str, int | str]:
    """Address -> status, or the error, of what the browser asked for since the last call."""
    answers: dict[str, int | str] = {}
    asked: dict[str, str] = {}
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        given = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            asked[given["requestId"]] = given["request"]["url"]
        elif message["method"] == "Network.responseReceived":
            answers[given["response"]["url"]] = given["response"]["status"]
        elif message["method"] == "Network.loadingFailed" and given["requestId"] in asked:
            answers[asked[given["requestId"]]] = given["errorText"]
    return answers


def show(browser, width: int, height: int) -> None:
    """A window of this size in pixels, whatever the screen's."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def settle(browser) -> None:
    """Wait until math is set."""
    browser.execute_async_script(
        "const done = arguments[0];"
        "(window.MathJax && MathJax.startup ? MathJax.startup.promise : Promise.resolve()).then(() => done());"
    )


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_in_the_browser(page, browser, address):
    SHOTS.mkdir(exist_ok=True)
    for width, pixels in WIDTHS.items():
        for theme in ("light", "dark"):
            show(browser, pixels, 900)
            browser.execute_cdp_cmd(
                "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
            )
            browser.get(f"{address}/{page.name}")
            settle(browser)
            state = browser.execute_script(
                "return {theme: document.documentElement.dataset.theme,"
                " wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,"
                " broken: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.outerHTML),"
                " formulas: document.querySelectorAll('.math').length,"
                " set: document.querySelectorAll('.math mjx-container').length,"
                " wrong: document.querySelectorAll('[data-mjx-error], mjx-merror').length}"
            )
            assert state["theme"] == theme
            assert not state["broken"]
            assert state["set"] >= state["formulas"] and not state["wrong"], "math that is not set"
            assert state["wide"] <= 0, f"the page is {state['wide']} px wider than a {width} window"
            tall = browser.execute_script("return document.documentElement.scrollHeight")
            show(browser, pixels, min(tall, 12000))
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "jpeg", "quality": 70})
            (SHOTS / f"{page.stem}-{width}-{theme}.jpg").write_bytes(base64.b64decode(shot["data"]))
    said = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not said, said
    asked = requests(browser)
    assert asked
    outside = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
    assert not outside and not {url: answer for url, answer in asked.items() if answer not in (200, 304)}


def test_search_finds_a_page(browser, address):
    browser.get(f"{address}/search.html?q=prototype")
    browser.execute_async_script(
        "const done = arguments[0]; let left = 36000;"
        "(function look() {"
        " const found = document.querySelectorAll('#search-results li a').length;"
        " if (found || !--left) done(found); else setTimeout(look, 100); })();"
    )
    found = browser.execute_script(
        "return [...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
    )
    assert any("method.html" in target for target in found)


def test_the_sphere_turns_and_its_epochs_can_be_scrubbed(browser, address):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    show(browser, 1280, 900)
    browser.get(f"{address}/method.html")
    sphere = browser.find_element(By.CSS_SELECTOR, "canvas[data-azimuth]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", sphere)
    before = sphere.screenshot_as_png, sphere.get_attribute("data-azimuth")
    ActionChains(browser).click_and_hold(sphere).move_by_offset(60, 10).release().perform()
    after = sphere.screenshot_as_png, sphere.get_attribute("data-azimuth")
    assert after[0] != before[0] and after[1] != before[1]
    slider = browser.find_element(By.CSS_SELECTOR, "input[type=range]")
    epoch = sphere.get_attribute("data-epoch")
    browser.execute_script("arguments[0].value = 0; arguments[0].dispatchEvent(new Event('input'))", slider)
    assert sphere.get_attribute("data-epoch") == "0" != epoch
