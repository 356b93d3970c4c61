import sys

import pytest

from hookline.errors import MissingExtraError
from hookline.progress import tracked


@pytest.mark.parametrize("show", [None, False, True])
def test_the_items_come_in_order_whether_a_bar_is_shown_or_not(show, capsys):
    assert list(tracked(range(3), "counting", total=3, show=show)) == [0, 1, 2]
    assert ("counting" in capsys.readouterr().err) == bool(show)  # stderr is no terminal here


def test_without_rich_the_bar_is_left_out_unless_it_is_insisted_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(tracked([1, 2], "counting", total=2)) == [1, 2]
    with pytest.raises(MissingExtraError, match=r"hookline\[cli\]"):
        list(tracked([1, 2], "counting", total=2, show=True))
