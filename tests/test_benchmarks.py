import importlib
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, parse
from benchmarks.measure import added, ratio, timed
from benchmarks.peers.adapters import ADAPTERS, Adapter
from benchmarks.peers.compare import compare

FOLDER = Path(__file__).parents[1] / "benchmarks"
SUPPORT = {"__init__", "__main__", "measure", "models"}


def test_without_names_all_benchmarks_are_run() -> None:
    assert parse([]).names == list(NAMES)
    assert parse(["hooks"]).names == ["hooks"]


def test_a_benchmark_that_there_is_not_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        parse(["hoks"])
    assert "there is no benchmark hoks; there are engine, hooks, gradient, functions" in capsys.readouterr().err


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


def test_of_the_captures_compared_those_without_a_copy_by_hand_are_overwritten_and_ours_is_true() -> None:
    ours, reference, clone = compare(ADAPTERS[:3], rounds=1, seconds=0.001)
    assert [each.name for each in (ours, reference, clone)] == [
        "hookline", "PyTorch hooks, reference", "PyTorch hooks, clone"
    ]  # fmt: skip
    assert ours.true == clone.true == (25, 25)
    assert reference.true == (0, 25)  # each is overwritten: by the ReLU after it, or by the sum
    assert all(each.unchanged and each.of_bare and not each.error for each in (ours, reference, clone))
    assert ours.of_ours == 1.0


def test_a_capture_that_raises_is_shown_with_its_error_and_the_others_go_on() -> None:
    def broken(model, paths):
        raise ValueError("first\nno such layer")

    raising, missing = Adapter("raising", "torch", broken), Adapter("missing", "no-such-distribution", broken)
    first, second, last = compare([raising, missing, ADAPTERS[2]], rounds=1, seconds=0.001)
    assert (first.error, first.of_bare, first.true) == ("ValueError: no such layer", None, None)
    assert (second.error, second.version) == ("not installed", "")
    assert last.true == (25, 25)
