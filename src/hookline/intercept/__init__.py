"""Where calls are caught: modules are given a subclass of their own class that runs the hooks."""

import hookline.intercept.checkpointing
import hookline.intercept.gradient
import hookline.intercept.numbering  # noqa: F401 - tells the engine about torch
