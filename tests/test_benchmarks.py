import importlib
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, parse
from benchmarks.measure import added, ratio, timed

FOLDER = Path(__file__).parents[1] / "benchmarks"
SUPPORT = {"__init__", "__main__", "measure", "models"}


def test_without_names_all_benchmarks_are_run() -> None:
    assert parse([]).names == list(NAMES)
    assert parse(["hooks"]).names == ["hooks"]


def test_a_benchmark_that_there_is_not_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        parse(["hoks"])
    assert "there is no benchmark hoks; there are engine, hooks, gradient" in capsys.readouterr().err


def test_every_file_of_measurements_is_among_the_names_and_gives_rows() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} - SUPPORT == set(NAMES)
    assert all(callable(importlib.import_module(f"benchmarks.{name}").rows) for name in NAMES)


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    row = ratio("name", [2.0, 4.0, 9.0], [1.0, 1.0, 3.0], 2.5, "bare")
    assert (row.ratio, row.met) == (3.0, False)
    assert added("name", [3.0] * 3, [5.0] * 3, [1.0] * 3, 0.5, "theirs").ratio == 0.5


def test_alternatives_are_timed_in_turn() -> None:
    order: list[str] = []
    times = timed({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3, seconds=0.0001)
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3}
    turns = [name for name, before in zip(order, [None, *order], strict=False) if name != before]
    assert turns[-6:] == ["a", "b"] * 3
