"""Pages in a real browser: Debian's chromium, driven by Debian's selenium.

A PageTest opens a page from its file, as people do, and fails on messages in the console (errors
and what the page's policy forbids are there), on any request but the file itself, and on a page
that is wider than the window. NXDKIT_PICTURES names a folder that keeps a picture of each look.
"""

import decimal
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import interop
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common import utils
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
WIDE, NARROW = 1280, 400  # pixels
MOST_SECONDS = 5  # until a page of a toy is loaded; a tenth of it is usual

# Texts that would become elements, or leave an attribute, a script or a style.
HOSTILE = ["<img src=x onerror=alert(1)>", "\"><script>alert(1)</script>", "</script><b>x</b>",
           "<!--<script>", "' onfocus=alert(1) autofocus '", "&lt;i&gt;", "</style><i>x</i>"]

FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]"


class Local(Service):
    """The driver by its address: a bare root has no /etc/hosts, and does not know "localhost"."""

    @property
    def service_url(self):
        return f"http://127.0.0.1:{self.port}"

    def is_connectable(self):
        return utils.is_connectable(self.port, "127.0.0.1")


def start(profile):
    """A browser that logs all messages and requests, and its process. The driver would look for a
    browser of its own at "localhost"."""
    process = subprocess.Popen(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
         "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = Options()
    options.debugger_address = f"127.0.0.1:{port_of(process, profile)}"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Local(DRIVER), options=options), process


def port_of(process, profile, seconds=60):
    """The port that the browser has written to its profile, once it listens."""
    for _ in range(10 * seconds):
        try:
            with open(os.path.join(profile, "DevToolsActivePort"), encoding="utf-8") as file:
                return int(file.readline())
        except (FileNotFoundError, ValueError):
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise AssertionError(f"{CHROMIUM} does not listen; its exit status: {process.poll()}")


def run(name, *arguments, expected=(0,), **keywords):
    """Runs a command of the build and returns what it prints."""
    done = subprocess.run([interop.program(name), *arguments], capture_output=True, text=True,
                          **keywords)
    if done.returncode not in expected:
        raise AssertionError(f"{name} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.driver, process = start(profile.name)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        cls.addClassCleanup(cls.driver.quit)

    def setUp(self):
        self.file = None
        self.width = WIDE

    def tearDown(self):
        if self.file:
            self.expect_clean()

    def path(self, name):
        return os.path.join(self.folder, name)

    # --- opening

    def open(self, file, width=WIDE, dark=False):
        self.file, self.width = file, width
        cdp = self.driver.execute_cdp_cmd
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        cdp("Emulation.setEmulatedMedia", {"features": [scheme]})
        cdp("Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)  # forgets
        self.driver.get(pathlib.Path(file).as_uri())
        self.expect_clean()

    def expect_clean(self):
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        self.assertEqual(messages, [], self.file)
        asked = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.add(message["params"]["request"]["url"])
        self.assertLessEqual(asked, {pathlib.Path(self.file).as_uri()})
        wide = self.js("return Math.max(document.documentElement.scrollWidth,"
                       " document.body.scrollWidth)")
        self.assertLessEqual(wide, self.width, f"{self.file}: wider than the window")

    def expect_good_looks(self, file):
        """Opens the page wide and narrow, light and dark, with all of its parts open."""
        for width in (WIDE, NARROW):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.open(file, width, dark)
                    seconds = self.js("return performance.getEntriesByType('navigation')[0]"
                                      ".loadEventEnd / 1000")
                    self.assertLess(seconds, MOST_SECONDS)
                    back, text = (self.brightness(of) for of in ("backgroundColor", "color"))
                    self.assertEqual((back < 0.2, text > 0.7), (dark, dark))
                    # Else scroll bars and fields stay light.
                    scheme = self.js("return getComputedStyle(document.documentElement).colorScheme")
                    self.assertEqual(scheme, "light dark")
                    self.keep_picture(f"{width}{'_dark' if dark else ''}")
                    self.open_all()
                    self.expect_clean()

    def brightness(self, of):
        """The mean of red, green and blue of the body's `of`, from 0 to 1."""
        colour = self.js("return getComputedStyle(document.body)[arguments[0]]", of)
        parts = colour[colour.index("(") + 1:-1].split(",")[:3]
        return sum(map(int, parts)) / 3 / 255

    def keep_picture(self, name):
        folder = os.environ.get("NXDKIT_PICTURES")
        if folder:
            self.driver.save_screenshot(os.path.join(folder, f"{self.id()}_{name}.png"))

    # --- what is there

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector, get="e => e.textContent"):
        """The values that `get` makes of the elements, as far as they are JSON."""
        return self.js(f"return [...document.querySelectorAll(arguments[0])].map({get})", selector)

    def data(self, name):
        """One of the page's blocks of data."""
        return json.loads(self.js("return document.getElementById(arguments[0]).textContent", name))

    def elements(self):
        """The names of all elements in their order, without places where a name may wrap."""
        return self.js("return [...document.body.querySelectorAll('*')].map(e => e.tagName)"
                       ".filter(name => name !== 'WBR')")

    def open_all(self):
        self.js("for (const e of document.querySelectorAll('details')) e.open = true")

    def expect_number(self, shown, value, what=None):
        """`shown` is `value`, rounded to the digits that are shown."""
        number = decimal.Decimal(shown.replace(",", ""))
        half = decimal.Decimal(5).scaleb(number.as_tuple().exponent - 1)
        near = abs(number - decimal.Decimal(value)) <= half * decimal.Decimal("1.0001")
        self.assertTrue(near, f"{what}: {shown} for {value!r}")

    # --- the keyboard

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def focus(self, selector):
        self.js("document.querySelector(arguments[0]).focus()", selector)

    def expect_all_by_tab(self):
        """Tab reaches everything that can be used in the opened page, with all of its parts open, in
        its order, and then leaves the page."""
        self.open(self.file, self.width)  # a page that was used goes on from there
        self.open_all()
        self.js("window.reached = []")
        for _ in range(1000):
            self.press(Keys.TAB)
            done = self.js("const e = document.activeElement;"
                           "if (e === document.body || window.reached.includes(e)) return true;"
                           "window.reached.push(e); return false")
            if done:
                break
        missing = self.js(
            f"return [...document.querySelectorAll('{FOCUSABLE}')]"
            ".filter(e => e.checkVisibility() && !e.disabled && e.tabIndex >= 0)"
            ".filter(e => !window.reached.includes(e)).map(e => e.outerHTML.slice(0, 200))")
        self.assertEqual(missing, [])
        order = self.js("return window.reached.every((e, i, all) => i === 0 ||"
                        " all[i - 1].compareDocumentPosition(e) & 4)")
        self.assertTrue(order, "Tab goes back")
        return self.js("return window.reached.length")

    def expect_keys_open(self, selector="summary"):
        """Enter and Space open and close each part."""
        for i in range(len(self.all(selector))):
            self.js("for (let e = document.querySelectorAll(arguments[0])[arguments[1]].parentElement;"
                    " (e = e.parentElement?.closest('details'));) e.open = true", selector, i)
            for key in (Keys.ENTER, Keys.SPACE):
                state = ("const e = document.querySelectorAll(arguments[0])[arguments[1]];"
                         "if (arguments[2]) e.focus(); return e.parentElement.open")
                before = self.js(state, selector, i, True)
                self.press(key)
                self.assertEqual(self.js(state, selector, i, False), not before, f"{selector} {i}")

    # --- texts of strangers

    def expect_same_elements(self, harmless, hostile):
        """A page with hostile texts has the elements of the same page with harmless ones."""
        self.open(harmless)
        expected = self.elements()
        self.open(hostile)
        self.assertEqual(self.elements(), expected)
        text = self.js("return document.documentElement.textContent")
        for part in HOSTILE:
            self.assertIn(part, text)
