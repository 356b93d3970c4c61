"""The report in a browser, with networking off: what a person sees, hovers, types and clicks."""

import re
import shutil

import pytest
import torch
from torch import nn

import hookline
from hookline.looking.report.packing import rounded

pytest.importorskip("jinja2", reason="reports need jinja2")
pytest.importorskip("matplotlib", reason="reports need matplotlib")
pytest.importorskip("PIL", reason="photos need pillow")
playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser is installed: apt-get install chromium")


class Net(nn.Module):
    """Gives maps whose channel 1 is 0 everywhere and whose channel 2 has a NaN in its first row, third column."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        self.marked = Marked()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.marked(self.stem(x)).nan_to_num().mean((2, 3)))


class Marked(nn.Module):
    def forward(self, x):
        x = x.clone()
        x[:, 1] = 0
        x[:, 2, 0, 2] = float("nan")
        x[:, 3] = -x[:, 3]
        return x


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Give the report's file, and the true values of `marked`."""
    torch.manual_seed(0)
    model, x = Net().eval(), torch.rand(1, 3, 8, 8)
    photo = (x[0] * 255).to(torch.uint8)
    report = hookline.look(model, x, photo=photo, labels=["cat", "dog", "cup"], title="Net looks at noise")
    file = tmp_path_factory.mktemp("report") / "report.html"
    report.save(file)
    return file, rounded(hookline.features(model, x, at="marked")["marked"][0])


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser, made):
    """Give the opened report; at the end nothing may have been asked of the network or printed on the console."""
    context = browser.new_context(offline=True, color_scheme="light", viewport={"width": 1280, "height": 860})
    opened = context.new_page()
    opened.set_default_timeout(10_000)
    noise = []
    opened.on("console", lambda message: noise.append(message.text))
    opened.on("pageerror", lambda error: noise.append(str(error)))
    opened.on("request", lambda request: noise.append(request.url) if not request.url.startswith("data:") else None)
    opened.goto(made[0].as_uri())
    opened.wait_for_selector("html[data-ready]")
    yield opened
    assert noise == [made[0].as_uri()]
    context.close()


def open_site(page, path):
    page.evaluate("path => { location.hash = '#/site/' + encodeURIComponent(path); }", path)
    page.wait_for_selector("#site .grid canvas, #site .vector canvas, #site .matrix canvas")


def is_at(page, path):
    page.wait_for_function("path => document.querySelector('#site h1')?.textContent === path", arg=path)


def hover(page, canvas, y, x):
    """Point at the middle of a cell of an 8 x 8 picture; return the lines of the sign."""
    canvas.scroll_into_view_if_needed()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # scrolling is over
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + (x + 0.5) * box["width"] / 8, box["y"] + (y + 0.5) * box["height"] / 8)
    page.wait_for_selector("#probe:not([hidden])")
    return page.locator("#probe > *").all_inner_texts()


def pixels(page, selector):
    return page.eval_on_selector(
        selector, "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)"
    )


def test_the_first_view_has_findings_the_photo_and_the_classes(page):
    assert page.title() == "Net looks at noise"
    assert "NaN or infinite" in page.inner_text("#findings li >> nth=0")
    assert page.locator("#cam img").is_visible()
    assert page.locator(".classes li").count() == 3
    assert page.locator("#depth svg").count() == 3


def test_hovering_shows_the_raw_value_the_channel_and_the_index(page, made):
    values = made[1]
    open_site(page, "marked")
    lines = hover(page, page.locator("#site .grid canvas").nth(3), 4, 6)
    assert float(lines[0].split(",")[0].replace("\u2212", "-")) == pytest.approx(values[3, 4, 6].item(), rel=5e-4)
    assert lines[1:] == ["channel 3", "[0, 3, 4, 6]"]
    assert hover(page, page.locator("#site .grid canvas").nth(2), 0, 2)[0] == "NaN"


def test_the_arrow_keys_read_values_too(page, made):
    open_site(page, "marked")
    page.locator("#site .grid canvas").nth(0).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("#probe > *").all_inner_texts()[-1] == "[0, 0, 2, 1]"


@pytest.mark.parametrize(("theme", "name"), [("light", "RdBu_r"), ("dark", "berlin")])
def test_the_colour_of_a_cell_is_the_colour_of_its_value_and_nan_has_one_of_its_own(page, made, theme, name):
    from matplotlib import colormaps

    from hookline.looking.report.sample import value_range

    values = made[1]
    page.emulate_media(color_scheme=theme)
    open_site(page, "marked")
    got = pixels(page, "#site .grid figure:nth-child(1) canvas")
    low, high, _ = value_range(values)
    value = values[0, 5, 5].item()
    wanted = colormaps[name](min(255, int((value - low) / (high - low) * 256)), bytes=True)[:3]
    assert low < value < high
    assert got[4 * (8 * 5 + 5) :][:3] == [int(part) for part in wanted]
    got = pixels(page, "#site .grid figure:nth-child(3) canvas")
    assert got[4 * 2 :][:3] == [255, 0, 168]


def test_a_channel_says_what_is_wrong_with_it_and_how_many_values_are_no_numbers(page):
    open_site(page, "marked")
    captions = page.locator("#site .grid figcaption").all_inner_texts()
    assert captions[1].split("\n") == ["1", "dead"]
    assert captions[2].split("\n") == ["2", "\u00d7 1"]
    assert "1 not finite" in page.inner_text("#site .colour-bar")


def test_over_the_photo_a_map_leaves_the_pixels_where_it_is_0(page, made):
    values = made[1]
    open_site(page, "marked")
    page.locator("#site .grid canvas").nth(0).click()
    page.locator("#site .toggle input[type=checkbox]").check()
    alphas = pixels(page, "#site .large canvas")[3::4]
    assert [alpha == 0 for alpha in alphas] == [value == 0 for value in values[0].flatten().tolist()]


def test_searching_finds_an_address_and_enter_opens_it(page):
    page.keyboard.press("/")
    page.keyboard.type("stem.1")
    assert page.inner_text("#count") == "1 of 6 modules"
    assert page.locator(".row.hit .name").all_inner_texts() == ["1"]
    page.keyboard.press("Enter")
    is_at(page, "stem.1")
    page.fill("#search", "*em.*")
    assert page.inner_text("#count") == "2 of 6 modules"


def test_the_keys_go_through_the_tree_and_the_modules(page):
    page.locator("#tree li").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    is_at(page, "stem")
    page.keyboard.press("]")
    is_at(page, "stem.0")
    page.keyboard.press("[")
    page.keyboard.press("ArrowLeft")  # closes the branch
    assert not page.get_by_role("treeitem", name="stem.0").is_visible()
    page.keyboard.press("o")
    page.wait_for_selector("#overview:not([hidden])")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()


def test_the_theme_follows_the_system_until_somebody_chooses(page, tmp_path):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.click("#theme")
    assert page.evaluate(ground) == light
    page.keyboard.press("t")
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_looks_like_a_page_in_both_themes(page, tmp_path, theme):
    """A picture of each view, for people to look at; here, that none of them is blank or cut off."""
    page.emulate_media(color_scheme=theme)
    for number, path in enumerate([None, "marked", "head"]):
        if path is not None:
            open_site(page, path)
        shot = page.screenshot(path=tmp_path / f"{theme}-{number}.png")
        assert len(shot) > 20_000
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_every_picture_says_in_words_what_it_shows(page):
    silent = "e => e.getAttribute('aria-hidden') !== 'true' && !(e.getAttribute('aria-label') || e.getAttribute('alt'))"
    for path in (".", "marked", "head"):
        open_site(page, path)
        quiet = page.eval_on_selector_all(
            "#site canvas, #site img, #site svg, #overview img", f"all => all.filter({silent}).map(e => e.outerHTML)"
        )
        assert quiet == []


def test_the_histogram_counts_zeros_apart(page, made):
    open_site(page, "marked")
    text = page.inner_text("#site .histogram-box")
    assert f"0: {int((made[1] == 0).sum())}" in text
    assert re.search(r"not finite: 1 NaN", text)


def test_a_narrow_window_has_everything_too(page):
    page.set_viewport_size({"width": 420, "height": 800})
    open_site(page, "marked")
    for selector in ("#theme", "#search", "#site .grid canvas >> nth=0", "#site .steps"):
        box = page.locator(selector).bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 420
