"""Pictures of the report for the documentation, from a run of the four hospitals: ``make screenshots``.

Needs the extra ``dev`` and a Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

HERE: Final = Path(__file__).parent
SCHEMES: Final = ("light", "dark")
_SIZE: Final = (1180, 980)
_MARGIN: Final = 8
_SETTINGS: Final = ("--in-process",)


def main() -> None:
    """Run, and write ``report-light.png`` and ``report-dark.png`` beside this file."""
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no Chromium: install chromium-headless-shell")
    with tempfile.TemporaryDirectory(prefix="fedct-") as temporary:
        command = [Path(sys.executable).with_name("fedct"), "simulate", *_SETTINGS, "--run-dir", "run"]
        subprocess.run(command, cwd=temporary, check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium)
            for scheme in SCHEMES:
                width, height = _SIZE
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto((Path(temporary) / "run" / "report.html").as_uri())
                page.wait_for_selector("body[data-drawn]")
                # What is seen at first, to the end of the first figure.
                box = page.locator("#figure-accuracy-pooled-end figcaption").bounding_box()
                end = box["y"] + box["height"] + _MARGIN if box else height
                clip = {"x": 0.0, "y": 0.0, "width": float(width), "height": end}
                page.screenshot(path=HERE / f"report-{scheme}.png", clip=clip, full_page=True)
            browser.close()


if __name__ == "__main__":
    main()
