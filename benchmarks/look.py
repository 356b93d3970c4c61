"""The report, the demonstration and the command line, against what a person waits for."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import hookline
from benchmarks.measure import Row
from benchmarks.models import efficientnet


def rows() -> list[Row]:
    model, x = efficientnet()
    with torch.no_grad():
        model(x)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        report = hookline.look(model, x)
        report.save(file)
        size = len(report.html.encode()) / 15e6
        return [
            _row("report of 185 modules, with its run", lambda: hookline.look(model, x), 3.0, 5),
            Row("size of that report", size, 1.0, (size, size), "15 MB"),
            *_opened(file),
            _row("hookline --help", lambda: _shell("--help"), 0.5, 9),
            _row("hookline demo", lambda: _shell("demo", "-o", str(file)), 15.0, 2),
        ]


def _opened(file: Path) -> list[Row]:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    if browser is None:
        return []
    with sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()

        def opened() -> None:
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]")

        return [_row("report opens in Chromium", opened, 2.0, 5)]


def _shell(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "hookline", *arguments], check=True, capture_output=True)  # noqa: S603 - ours


def _row(name: str, run: Callable[[], object], seconds: float, rounds: int) -> Row:
    shares = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        shares.append((time.perf_counter() - begun) / seconds)
    low, middle, high = statistics.quantiles(shares, n=4)
    return Row(name, middle, 1.0, (low, high), f"{seconds:g} s")
