"""Hooks for PyTorch models: observe, edit, freeze and look at what flows through them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hookline._version import __version__

if TYPE_CHECKING:
    from hookline.address import Selection, Target, select
    from hookline.capturing import CaptureReport, Features, Stats, capture, features, load_features, stats
    from hookline.core import Call, Handle
    from hookline.editing import (
        EditPlan,
        Edits,
        Operation,
        SiteEffect,
        TraceEffect,
        add,
        clamp,
        edit,
        mean,
        noise,
        patch,
        project_out,
        replace,
        scale,
        swap,
        sweep,
        trace_effect,
        zero,
    )
    from hookline.errors import (
        AddressError,
        CallsError,
        CaptureError,
        EditError,
        HooklineError,
        HooklineWarning,
        HookRefusedError,
        HookResultError,
        HookTypeError,
        MissingExtraError,
        NeverFiredError,
        NeverFiredWarning,
        NoMatchError,
        PartError,
        PlanError,
        RecomputeError,
        StopForward,
    )
    from hookline.hooks import Hooks, HooksReport, hooks_on
    from hookline.intercept.drop_in import (
        register_backward_hook,
        register_forward_hook,
        register_forward_pre_hook,
        register_full_backward_hook,
        register_full_backward_pre_hook,
    )
    from hookline.intercept.functional import FunctionInfo, FunctionList, functions
    from hookline.intercept.gradient import BackwardCall, GradientCall

# Loaded on first use, so that the command line can answer --help without loading torch.
_HOME = {
    "EditPlan": "hookline.editing",
    "Edits": "hookline.editing",
    "Operation": "hookline.editing",
    "SiteEffect": "hookline.editing",
    "TraceEffect": "hookline.editing",
    "add": "hookline.editing",
    "clamp": "hookline.editing",
    "edit": "hookline.editing",
    "mean": "hookline.editing",
    "noise": "hookline.editing",
    "patch": "hookline.editing",
    "project_out": "hookline.editing",
    "replace": "hookline.editing",
    "scale": "hookline.editing",
    "swap": "hookline.editing",
    "sweep": "hookline.editing",
    "trace_effect": "hookline.editing",
    "zero": "hookline.editing",
    "EditError": "hookline.errors",
    "PlanError": "hookline.errors",
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
    "RecomputeError": "hookline.errors",
    "Selection": "hookline.address",
    "Target": "hookline.address",
    "hooks_on": "hookline.hooks",
    "BackwardCall": "hookline.intercept.gradient",
    "FunctionInfo": "hookline.intercept.functional",
    "FunctionList": "hookline.intercept.functional",
    "GradientCall": "hookline.intercept.gradient",
    "functions": "hookline.intercept.functional",
    "register_backward_hook": "hookline.intercept.drop_in",
    "register_forward_hook": "hookline.intercept.drop_in",
    "register_full_backward_hook": "hookline.intercept.drop_in",
    "register_full_backward_pre_hook": "hookline.intercept.drop_in",
    "register_forward_pre_hook": "hookline.intercept.drop_in",
    "select": "hookline.address",
}

__all__ = [
    "AddressError",
    "BackwardCall",
    "Call",
    "CallsError",
    "CaptureError",
    "CaptureReport",
    "EditError",
    "EditPlan",
    "Edits",
    "Features",
    "FunctionInfo",
    "FunctionList",
    "GradientCall",
    "Handle",
    "HookRefusedError",
    "HookResultError",
    "HookTypeError",
    "HooklineError",
    "HooklineWarning",
    "Hooks",
    "HooksReport",
    "MissingExtraError",
    "NeverFiredError",
    "NeverFiredWarning",
    "NoMatchError",
    "Operation",
    "PartError",
    "PlanError",
    "RecomputeError",
    "Selection",
    "SiteEffect",
    "Stats",
    "StopForward",
    "Target",
    "TraceEffect",
    "__version__",
    "add",
    "capture",
    "clamp",
    "edit",
    "features",
    "functions",
    "hooks_on",
    "load_features",
    "mean",
    "noise",
    "patch",
    "project_out",
    "register_backward_hook",
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "replace",
    "scale",
    "select",
    "stats",
    "swap",
    "sweep",
    "trace_effect",
    "zero",
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
