#!/usr/bin/python3
"""Makes the pictures of pages: each page by one command on a toy, opened in Debian's chromium by
Debian's selenium.

    tools/screens/pages.py BIN WORK    (called by make.sh; WORK has model, shards/step_0 and run)
"""

import base64
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH = 1200
HEIGHT = 900  # of a picture
WINDOW = 1700  # the height of the window, of which a picture shows the top
MARGIN = 12
COLOURS = 256  # a palette keeps text crisp, and a picture takes a third


@dataclasses.dataclass
class Picture:
    name: str
    command: str  # typed in WORK; writes NAME.html
    until: str = ""  # the last element that is shown; without it, or if it is not there, HEIGHT
    prepare: str = ""  # a script that is run in the page before


PICTURES = [
    Picture("inspect", "ckpt-inspect --html inspect.html shards/step_0", "#chosen .columns"),
    Picture("explain", "nxd-convert --explain --html explain.html --to nxd --tp 4 model",
            "#chosen .columns"),
    Picture("diff", "ckpt-diff --html diff.html run/global_step_100 run/global_step_200"
            " run/global_step_300", "#heat-info",
            "document.querySelector('[data-name=\"model.layers.4.mlp.down_proj.weight\"]').focus()"),
    Picture("report", "grpo-train report run --out report.html", ".charts figure:nth-of-type(2)"),
]


def browser():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def take(driver, picture, page, png):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": WIDTH, "height": WINDOW, "deviceScaleFactor": 1, "mobile": False})
    scheme = {"name": "prefers-color-scheme", "value": "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(pathlib.Path(page).as_uri())
    driver.execute_script(picture.prepare)
    bottom = driver.execute_script(
        "const last = arguments[0] && document.querySelector(arguments[0]);"
        "return Math.ceil((last || document.body).getBoundingClientRect().bottom) + scrollY",
        picture.until)
    height = bottom + MARGIN if picture.until and bottom <= WINDOW else min(bottom, HEIGHT)
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
    with open(png, "wb") as file:
        file.write(base64.b64decode(shot["data"]))
    subprocess.run(["mogrify", "-strip", "+dither", "-colors", str(COLOURS), "-define",
                    "png:compression-level=9", "-define", "png:exclude-chunks=date,time", png],
                   check=True)


def main():
    tools, work = map(os.path.abspath, sys.argv[1:3])
    driver = browser()
    try:
        for picture in PICTURES:
            name, *arguments = shlex.split(picture.command)
            page = os.path.join(work, picture.name + ".html")
            pathlib.Path(page).unlink(missing_ok=True)
            print(f"$ {picture.command}", flush=True)
            done = subprocess.run([os.path.join(tools, name), *arguments], cwd=work,
                                  stdout=subprocess.DEVNULL)
            if done.returncode not in (0, 1):  # 1: ckpt-diff finds a difference
                sys.exit(f"pages.py: {name}: exit status {done.returncode}")
            png = os.path.join(HERE, picture.name + ".png")
            take(driver, picture, page, png)
            print(f"tools/screens/{picture.name}.png: {os.path.getsize(png):,} bytes")
    finally:
        driver.quit()


main()
