"""Assertions for the tests of those who use hookline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from hookline.freezing.causes import changes
from hookline.freezing.fingerprint import fingerprints
from hookline.freezing.layout import Layout
from hookline.freezing.ledger import hold, let_go
from hookline.freezing.level import Level
from hookline.freezing.naming import named
from hookline.intercept.hookable import check_module


@contextmanager
def assert_frozen(model: nn.Module, *where: Any) -> Iterator[None]:
    """Assert that a block changes nothing of what `where` names: no parameter and no buffer, bit for bit.

    ```python
    with hookline.testing.assert_frozen(model, "backbone", "cls_token"):
        train_one_epoch(model)
    ```

    It freezes nothing, and does not mind by what means the tensors stay as they are.

    Args:
        model: the module whose modules and parameters are named.
        where: as for `hookline.freeze`; the whole model, when nothing is named.

    Raises:
        AssertionError: something changed; it names each tensor, by how much it changed and the likely cause.
        NoMatchError: something in `where` names neither a module nor a parameter.
    """
    check_module(model)
    layout = Layout(model)
    part = named(layout, where or (".",))
    slots = Level("state", dropout=False).proven(layout, part)
    prints = fingerprints(slots)
    holder, owners = object(), {"loads": list({id(slot.module): slot.module for slot in slots}.values())}
    hold(holder, owners, ())
    try:
        yield
        lines = changes(prints)
    finally:
        let_go(holder, owners, ())
    if lines:
        raise AssertionError("\n".join(["what was to stay as it is has changed:", *(f"  {line}" for line in lines)]))
