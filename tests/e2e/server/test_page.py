"""The built-in page: as it is sent, and in a browser where there is one."""

import re
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def test_it_is_one_file_that_loads_nothing_from_elsewhere(client):
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"""(https?:)?//[a-z]|url\(|@import|src=""", answer.text)
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    for kind in ("script-src", "style-src"):
        assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]+'", policy[kind])


def test_it_needs_no_key(live):
    guarded = live.client(api_key=("secret",))
    assert guarded.get("/").status_code == 200
    assert guarded.get("/v1/models").status_code == 401


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as api:
        browser = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, live, client):
    """Open the page of a server with these arguments; what its console says must be expected."""
    opened = []

    def go(*, scheme="light", path="/", **args):
        page = browser.new_page(color_scheme=scheme)
        page.set_default_timeout(20_000)
        said = []
        page.on("console", lambda message: note(said, message))
        page.on("pageerror", lambda error: said.append(str(error)))
        opened.append((page, said))
        page.goto(str(live.client(**args).base_url) + path)
        page.said = said
        return page

    yield go
    for page, said in opened:
        page.close()
        assert [text for text in said if "401" not in text and "400" not in text] == []


def note(said, message):
    if message.type in ("error", "warning"):
        said.append(message.text)


class TestChat:
    def say(self, page, text, tokens=12):
        page.get_by_label("Maximum tokens").fill(str(tokens))
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Message", exact=True).fill(text)
        page.keyboard.press("Enter")

    def test_an_answer_streams_in(self, visit, client):
        page = visit()
        page.get_by_text("256 tokens of context").wait_for()
        self.say(page, "hi")
        page.get_by_text(re.compile(r"\d+ \+ \d+ tokens")).wait_for()
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "temperature": 0}
        answer = client.post("/v1/chat/completions", json=body).json()
        shown = page.locator(".assistant span").text_content()
        assert shown == answer["choices"][0]["message"]["content"]
        self.say(page, "again", 5)
        page.locator(".turn").nth(3).wait_for()
        page.get_by_role("button", name="New chat").click()
        assert page.locator(".turn").count() == 0

    def test_it_can_be_stopped_by_the_keyboard(self, visit):
        page = visit()
        page.get_by_text("256 tokens of context").wait_for()
        waiting = []
        # An answer that does not come, so that there is time to press a key.
        page.route("**/v1/chat/completions", lambda route: waiting.append(route))
        self.say(page, "hi")
        stop = page.get_by_role("button", name="Stop")
        assert stop.is_enabled()
        page.keyboard.press("Escape")
        page.get_by_text("stopped", exact=True).wait_for()
        assert stop.is_disabled()
        assert page.get_by_role("button", name="Send").is_enabled()
        assert len(waiting) == 1

    def test_a_refusal_is_told_and_the_message_kept(self, visit):
        page = visit()
        page.get_by_text("256 tokens of context").wait_for()
        self.say(page, "x" * 400)
        assert "256" in page.get_by_role("alert").text_content()
        assert page.get_by_label("Message", exact=True).input_value() == "x" * 400

    def test_answers_are_text_and_never_markup(self, visit):
        page = visit()
        page.get_by_text("256 tokens of context").wait_for()
        self.say(page, "<img src=x onerror=document.title='bad'><b>b</b>", 1)
        page.locator(".assistant").wait_for()
        assert page.locator("#log img, #log .user b b").count() == 0
        assert page.title() == "runtime"

    def test_a_key_is_asked_for_and_kept_in_memory_alone(self, visit):
        page = visit(api_key=("secret",))
        page.get_by_text("API key is required").wait_for()
        key = page.get_by_label("API key")
        assert key.evaluate("one => one === document.activeElement")
        key.fill("secret")
        key.press("Tab")
        page.get_by_text("256 tokens of context").wait_for()
        self.say(page, "hi", 2)
        page.get_by_text(re.compile(r"\d+ \+ 2 tokens")).wait_for()
        kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        assert kept == [0, 0, ""]


def test_metrics_are_live(visit, client):
    from playwright.sync_api import expect

    page = visit()
    row = page.locator("dt", has_text="Outputs so far").locator("xpath=following-sibling::dd[1]")
    row.wait_for()
    before = int(row.text_content().replace(",", ""))
    client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1})
    expect(row).to_have_text(str(before + 1), timeout=10_000)
    assert page.locator("dd", has_text="NaN").count() == 0


def test_it_has_a_dark_side(visit):
    backgrounds = {
        visit(scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert len(backgrounds) == 2


def test_every_control_has_a_name_and_can_be_reached(visit):
    page = visit()
    for control in page.locator("button, input, select, textarea").all():
        assert control.evaluate("one => (one.labels?.[0] ?? one).textContent || one.ariaLabel")
        assert control.evaluate("one => one.tabIndex") == 0
