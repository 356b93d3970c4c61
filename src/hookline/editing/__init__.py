"""Changes of what flows through a model, as data.

Not edit/: a package of the name of the function `hookline.edit` would replace it.
"""

from hookline.editing.operation import Operation
from hookline.editing.operations import add, clamp, mean, noise, patch, project_out, replace, scale, swap, zero
from hookline.editing.plan import EditPlan
from hookline.editing.session import Edits, edit
from hookline.editing.sweeping import sweep
from hookline.editing.tracing import SiteEffect, TraceEffect, trace_effect

__all__ = [
    "EditPlan",
    "Edits",
    "Operation",
    "SiteEffect",
    "TraceEffect",
    "add",
    "clamp",
    "edit",
    "mean",
    "noise",
    "patch",
    "project_out",
    "replace",
    "scale",
    "swap",
    "sweep",
    "trace_effect",
    "zero",
]
