"""What hookline raises and warns of on purpose.

HooklineError
├── HookTypeError      (TypeError)     not a module, not callable, wrong number of parameters
├── HookRefusedError   (TypeError)     a module or method that cannot be hooked
├── HookResultError    (RuntimeError)  a hook returned something that cannot be used
├── AddressError       (ValueError)    an address that cannot be read
│   ├── NoMatchError   (LookupError)   an address that fits nothing in the model
│   └── PartError      (LookupError)   a part that the value at hand does not have
├── CaptureError       (RuntimeError)  a value that cannot be captured, kept or saved
├── EditError          (ValueError)    an edit does not fit the value, or another edit
│   └── PlanError                      a plan of edits that cannot be read, saved, or is for another model
├── RecomputeError     (RuntimeError)  activation checkpointing repeats a call with other hooks than it had
├── FreezeError        (RuntimeError)  something cannot be frozen, thawed or cached as asked
├── NotFrozenError     (RuntimeError)  what should be frozen has changed, or is about to
├── CallsError         (LookupError)   one value was asked for where there are none or several
├── NeverFiredError    (RuntimeError)  a hook that was asked for did not run, under strict=True
├── ModelRunError      (RuntimeError)  the model failed while it was looked at
├── CommandError       (ValueError)    what the command line was given cannot be used
└── MissingExtraError  (ImportError)   an optional dependency is not installed

StopForward            (BaseException) not an error: ends a run that has gone far enough

HooklineWarning        (UserWarning)
└── NeverFiredWarning                  a hook that was asked for did not run
"""

from __future__ import annotations


class HooklineError(Exception):
    """Base class: catch this to catch every error that hookline raises on purpose."""


class HookTypeError(HooklineError, TypeError):
    """The thing to hook, or the hook itself, is of the wrong kind."""


class HookRefusedError(HooklineError, TypeError):
    """The module or method cannot be hooked; the message says what to do instead."""


class HookResultError(HooklineError, RuntimeError):
    """A hook returned something that cannot take the place of what it was given."""


class AddressError(HooklineError, ValueError):
    """The text is not an address; the message points at the column."""


class NoMatchError(AddressError, LookupError):
    """An address, or one part of a list of them, fits nothing in the model."""


class PartError(AddressError, LookupError):
    """The value has no such part; the message lists what it has."""


class CaptureError(HooklineError, RuntimeError):
    """A value cannot be captured, kept or saved; the message says which and why."""


class EditError(HooklineError, ValueError):
    """An edit does not fit the value that it meets, or another edit of the same place."""


class PlanError(EditError):
    """A plan of edits cannot be read or saved, or was made for another model."""


class RecomputeError(HooklineError, RuntimeError):
    """Activation checkpointing repeats a call, and a hook that changes values was there only once.

    The gradients would be those of another function than the one that was run.
    """


class FreezeError(HooklineError, RuntimeError):
    """Something cannot be frozen, thawed or cached as it was asked for; the message says why and what to do."""


class NotFrozenError(HooklineError, RuntimeError):
    """What should be frozen has changed, or is about to; the message names each tensor and the likely cause."""


class CallsError(HooklineError, LookupError):
    """One value was asked for, and the site has none or several; the message says what to use."""


class NeverFiredError(HooklineError, RuntimeError):
    """A hook that was asked for with `strict=True` did not run."""


class ModelRunError(HooklineError, RuntimeError):
    """The model failed while it was looked at; the message names the module, and what it was given.

    Attributes:
        table: the layer table up to there, or None.
    """

    def __init__(self, message: str, table: object = None) -> None:
        super().__init__(message)
        self.table = table


class CommandError(HooklineError, ValueError):
    """What the command line was given cannot be used; the message says what can."""


class MissingExtraError(HooklineError, ImportError):
    """An optional dependency is not installed; the message gives the pip command."""


class StopForward(BaseException):
    """Ends a run that has gone far enough; no `except Exception` of a model can swallow it.

    Attributes:
        source: what ended the run; the block that belongs to it swallows this.
    """

    def __init__(self, source: object) -> None:
        super().__init__("hookline ended the run: all that was asked for has been captured.")
        self.source = source


class HooklineWarning(UserWarning):
    """Base class of every warning that hookline gives."""


class NeverFiredWarning(HooklineWarning):
    """A hook that was asked for did not run; the message says why when it can be known."""
