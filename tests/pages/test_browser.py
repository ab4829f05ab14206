"""The checks of browser.py fail where they should."""

import browser

GOOD = ("<!DOCTYPE html><meta charset=utf-8><title>t</title><details><summary>a</summary>x"
        "</details><button>b</button>")
POLICY = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"


class BrowserTest(browser.PageTest):
    def write(self, html, name="page.html"):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(html)
        return path

    def expect_bad(self, check, html, message):
        with self.subTest(html):
            page = self.write(html)
            with self.assertRaisesRegex(AssertionError, message):
                self.open(page, browser.NARROW)
                check()
        self.file = None

    def test_a_good_page(self):
        self.open(self.write(GOOD))
        self.expect_keys_open()
        self.assertEqual(self.expect_all_by_tab(), 2)

    def test_bad_pages(self):
        self.write("<svg xmlns='http://www.w3.org/2000/svg'/>", "picture.svg")
        for html, message in (
            ("<script>console.error('wrong')</script>", "wrong"),
            ("<script>nothing()</script>", "nothing is not defined"),
            (POLICY + "<script>1</script>", "Content Security Policy"),
            ("<img src=missing.svg>", "ERR_FILE_NOT_FOUND"),
            ("<img src=picture.svg>", "picture.svg"),
            ("<div style='width: 500px'>x</div>", "wider than the window"),
        ):
            self.expect_bad(lambda: None, GOOD + html, message)

    def test_keys_that_do_nothing(self):
        stop = "<script>onkeydown = event => event.preventDefault()</script>"
        self.expect_bad(self.expect_keys_open, GOOD + stop, "summary 0")
        trap = "<script>document.querySelector('button').onfocus = e => e.target.blur()</script>"
        self.expect_bad(self.expect_all_by_tab, GOOD + trap, "<button>b</button>")
        self.expect_bad(self.expect_all_by_tab, GOOD + "<p tabindex=3>c</p>", "Tab goes back")

    def test_numbers(self):
        self.expect_number("0.0078", 0.0078125)
        self.expect_number("1.6e-10", 1.6476750456224084e-10)
        self.expect_number("1,234", 1234)
        for shown, value in (("0.0079", 0.0078125), ("1.6e-10", 1.66e-10), ("1,234", 1235)):
            with self.assertRaises(AssertionError):
                self.expect_number(shown, value)
