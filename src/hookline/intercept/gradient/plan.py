"""What the hooks on the gradients of one site need, found out once."""

from __future__ import annotations

from hookline.core import AFTER_BACKWARD, ARGS, INPUT_GRADIENT, OUTPUT_GRADIENT, Hook


class Plan:
    """The hooks of a site's backward pass by phase, and what has to be done for them.

    Attributes:
        at_outputs, at_inputs, at_end: those of each phase, in order.
        isolates: whether the gradients of the inputs are wanted, for themselves or to know when all is done.
        together: whether a hook must have the gradients of all outputs before any goes on.
        waits: whether a hook is told in one pass of more than one gradient.
        looks: whether anything has to be seen of the output's gradients.
        parts: the hooks whose address names a part.
    """

    __slots__ = (
        "_tell",
        "at_end",
        "at_inputs",
        "at_outputs",
        "isolates",
        "looks",
        "parts",
        "together",
        "waits",
    )

    def __init__(self, hooks: tuple[Hook, ...]) -> None:
        self.at_outputs = tuple(hook for hook in hooks if hook.phase == OUTPUT_GRADIENT)
        self.at_inputs = tuple(hook for hook in hooks if hook.phase == INPUT_GRADIENT)
        self.at_end = tuple(hook for hook in hooks if hook.phase == AFTER_BACKWARD)
        self.isolates = bool(self.at_inputs or self.at_end)
        self.together = any(hook.convention == ARGS for hook in self.at_outputs)
        self.waits = bool(self.at_end) or any(hook.convention == ARGS for hook in self.at_inputs)
        self.looks = bool(self.at_outputs) or self.waits
        self.parts = tuple(hook for hook in hooks if getattr(getattr(hook.about, "address", None), "part", ()))
        self._tell = tuple(hook for hook in hooks if hasattr(hook.about, "unwatched"))

    def leave_word(self, of_output: str, of_inputs: str) -> None:
        """Leave word for the never-fired report of why there is nothing to see in this call; "" if there is.

        Args:
            of_output: for the hooks that wait for gradients of the output.
            of_inputs: for those that wait for gradients of the inputs.
        """
        for hook in self._tell:
            hook.about.unwatched = of_inputs if hook.phase == INPUT_GRADIENT else of_output

    @property
    def tells(self) -> bool:
        """Whether there is somebody for whom a word is left."""
        return bool(self._tell)
