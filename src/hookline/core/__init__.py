"""What a hook is, and how hooks run around a call: plain Python, without torch."""

from hookline.core.call import Call
from hookline.core.dispatch import dispatch
from hookline.core.handle import Handle
from hookline.core.hook import (
    AFTER,
    AFTER_BACKWARD,
    ARGS,
    AROUND,
    BEFORE,
    CALL,
    INPUT_GRADIENT,
    KWARGS,
    OUTPUT_GRADIENT,
    Hook,
)
from hookline.core.site import Site

__all__ = [
    "AFTER",
    "AFTER_BACKWARD",
    "ARGS",
    "AROUND",
    "BEFORE",
    "CALL",
    "INPUT_GRADIENT",
    "KWARGS",
    "OUTPUT_GRADIENT",
    "Call",
    "Handle",
    "Hook",
    "Site",
    "dispatch",
]
