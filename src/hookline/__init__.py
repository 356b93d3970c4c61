"""Hooks for PyTorch models: observe, edit, freeze and look at what flows through them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hookline._version import __version__

if TYPE_CHECKING:
    from hookline.address import Selection, Target, select
    from hookline.capturing import CaptureReport, Features, Stats, capture, features, load_features, stats
    from hookline.core import Call, Handle
    from hookline.errors import (
        AddressError,
        CallsError,
        CaptureError,
        HooklineError,
        HooklineWarning,
        HookRefusedError,
        HookResultError,
        HookTypeError,
        MissingExtraError,
        ModelRunError,
        NeverFiredError,
        NeverFiredWarning,
        NoMatchError,
        PartError,
        StopForward,
    )
    from hookline.hooks import Hooks, HooksReport, hooks_on
    from hookline.intercept.drop_in import register_forward_hook, register_forward_pre_hook
    from hookline.looking.layer_table import LayerTable, layer_table
    from hookline.looking.report import Report, look

# Loaded on first use, so that the command line can answer --help without loading torch.
_HOME = {
    "LayerTable": "hookline.looking.layer_table",
    "layer_table": "hookline.looking.layer_table",
    "look": "hookline.looking.report",
    "Report": "hookline.looking.report",
    "ModelRunError": "hookline.errors",
    "Stats": "hookline.capturing",
    "stats": "hookline.capturing",
    "load_features": "hookline.capturing",
    "features": "hookline.capturing",
    "capture": "hookline.capturing",
    "Features": "hookline.capturing",
    "CaptureReport": "hookline.capturing",
    "StopForward": "hookline.errors",
    "CaptureError": "hookline.errors",
    "CallsError": "hookline.errors",
    "AddressError": "hookline.errors",
    "Call": "hookline.core",
    "Handle": "hookline.core",
    "HookRefusedError": "hookline.errors",
    "HookResultError": "hookline.errors",
    "HookTypeError": "hookline.errors",
    "HooklineError": "hookline.errors",
    "HooklineWarning": "hookline.errors",
    "Hooks": "hookline.hooks",
    "HooksReport": "hookline.hooks",
    "MissingExtraError": "hookline.errors",
    "NeverFiredError": "hookline.errors",
    "NeverFiredWarning": "hookline.errors",
    "NoMatchError": "hookline.errors",
    "PartError": "hookline.errors",
    "Selection": "hookline.address",
    "Target": "hookline.address",
    "hooks_on": "hookline.hooks",
    "register_forward_hook": "hookline.intercept.drop_in",
    "register_forward_pre_hook": "hookline.intercept.drop_in",
    "select": "hookline.address",
}

__all__ = [
    "AddressError",
    "Call",
    "CallsError",
    "CaptureError",
    "CaptureReport",
    "Features",
    "Handle",
    "HookRefusedError",
    "HookResultError",
    "HookTypeError",
    "HooklineError",
    "HooklineWarning",
    "Hooks",
    "HooksReport",
    "LayerTable",
    "MissingExtraError",
    "ModelRunError",
    "NeverFiredError",
    "NeverFiredWarning",
    "NoMatchError",
    "PartError",
    "Report",
    "Selection",
    "Stats",
    "StopForward",
    "Target",
    "__version__",
    "capture",
    "features",
    "hooks_on",
    "layer_table",
    "load_features",
    "look",
    "register_forward_hook",
    "register_forward_pre_hook",
    "select",
    "stats",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hookline' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
