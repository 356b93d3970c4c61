"""One call whose gradients are looked at, as the backward pass meets it."""

from __future__ import annotations

from torch import Tensor, nn
from torch.autograd.graph import Node

from hookline.core import ARGS, Hook
from hookline.core.hook import describe_function
from hookline.core.notes import annotate
from hookline.intercept.gradient.awaited import Awaited
from hookline.intercept.gradient.backward_pass import at_end, current_pass
from hookline.intercept.gradient.gradient_call import BackwardCall, GradientCall
from hookline.intercept.gradient.places import NOWHERE, Gradients, Places, fitting
from hookline.intercept.gradient.plan import Plan
from hookline.intercept.undisturbed import undisturbed


class Watched:
    """Runs the hooks of one call when gradients arrive.

    The graph holds it, and it holds no tensor for longer than a backward pass.

    Attributes:
        plan: the hooks that the call began with; one that was removed since does nothing.
        inputs, outputs: where the tensors lie.
        wanted: for a hook whose address names a part, the numbers of the tensors in it.
        elsewhere: in the pass under way, for inputs whose memory an output shares, what of the gradient came from other
            uses of them.
        parameters: the module's trainable parameters by name, as nodes of the graph, if a hook waits for them.
        node: the node at which the inputs' gradients arrive, likewise.
    """

    __slots__ = (
        "__weakref__",
        "_pass",
        "_passes",
        "_under_way",
        "elsewhere",
        "inputs",
        "module",
        "node",
        "number",
        "outputs",
        "parameters",
        "plan",
        "wanted",
    )

    def __init__(self, plan: Plan, module: nn.Module, number: int) -> None:
        self.plan = plan
        self.module = module
        self.number = number
        self.inputs = self.outputs = NOWHERE
        self.wanted: dict[Hook, frozenset[int]] = {}
        self.elsewhere: dict[int, Tensor] = {}
        self.parameters: list[tuple[str, Node]] | None = None
        self.node: Node | None = None
        self._pass = self._passes = -1
        self._under_way: dict[int, Awaited] | None = None

    @undisturbed
    def output_received(self, number: int, gradient: Tensor | None) -> Tensor | None:
        """Run the hooks on the gradient of one output; return what goes on."""
        if gradient is None:  # an output beside it was used, this one was not
            return None
        count = len(self.outputs.parts)
        if count == 1:
            return self._of_outputs([gradient])[0]
        gradients: Gradients = [None] * count
        gradients[number] = gradient
        return self._of_outputs(gradients)[number]

    @undisturbed
    def outputs_received(self, gradients: Gradients) -> Gradients:
        """Run the hooks on gradients of the output that arrive together."""
        if all(gradient is None for gradient in gradients):  # this output is not used, one beside it further out is
            return gradients
        return self._of_outputs(gradients)

    def _of_outputs(self, gradients: Gradients) -> Gradients:
        awaited = self._awaited()
        if self.plan.at_outputs:
            gradients = self._run(self.plan.at_outputs, self.outputs, gradients, None)
        if awaited is not None:
            awaited.add_outputs(gradients)
        return gradients

    @undisturbed
    def inputs_received(self, gradients: Gradients) -> Gradients:
        """Run the hooks on the gradients of the inputs."""
        if gradients[0] is None and not any(each is not None for each in gradients) and not self._has_begun():
            return gradients
        awaited = self._awaited()
        if self.elsewhere:
            gradients = self._without_others(gradients, awaited)
        else:
            gradients = self._run(self.plan.at_inputs, self.inputs, gradients, awaited)
        if awaited is not None:
            awaited.inputs_received()
        return gradients

    def _without_others(self, gradients: Gradients, awaited: Awaited | None) -> Gradients:
        """Run the hooks on what came by way of the module; return that with what came by other ways."""
        others, self.elsewhere = self.elsewhere, {}
        own: Gradients = [
            gradient - others[number] if gradient is not None and number in others else gradient
            for number, gradient in enumerate(gradients)
        ]
        new = self._run(self.plan.at_inputs, self.inputs, own, awaited)
        return [
            # What no hook changed goes on bit for bit.
            gradient if after is before else after + others[number] if number in others and after is not None else after
            for number, (gradient, before, after) in enumerate(zip(gradients, own, new, strict=True))
        ]

    def all_received(self, awaited: Awaited) -> None:
        """Run the hooks that wait for the end of the module's backward pass."""
        for hook in self.plan.at_end:
            call = BackwardCall(hook, self.module, self.number, self._passes, dict(awaited.parameter_grads))
            try:
                hook.function(call)
            except BaseException as error:
                annotate(error, hook, self.module, self.number)
                raise
        if not awaited.inputs_done:  # no input gets a gradient in this pass
            self._run(self.plan.at_inputs, self.inputs, [None] * len(self.inputs.parts), awaited)

    def end(self, task: int) -> None:
        """Deal with what the pass did not reach."""
        awaited = self._under_way.pop(task, None) if self._under_way else None
        if awaited is not None:
            awaited.end()

    def _has_begun(self) -> bool:
        """Return whether anything has arrived in the pass that is under way."""
        return self._under_way is not None and current_pass() in self._under_way

    def _awaited(self) -> Awaited | None:
        """Take note of the pass that is under way; return what it still has to bring, if a hook waits for that."""
        task = current_pass()
        if task != self._pass:
            self._pass = task
            self._passes += 1
        if not self.plan.waits:
            return None
        if self._under_way is None:
            self._under_way = {}
        awaited = self._under_way.get(task)
        if awaited is None:
            at_end(task, self)
            awaited = self._under_way[task] = Awaited(self, task)
        return awaited

    def _run(self, hooks: tuple[Hook, ...], places: Places, gradients: Gradients, awaited: Awaited | None) -> Gradients:
        hook: Hook | None = None
        try:
            for hook in hooks:
                if hook.convention == ARGS:
                    gradients = self._with_tuples(hook, places, gradients, awaited)
                else:
                    gradients = self._one_by_one(hook, places, gradients)
        except BaseException as error:
            annotate(error, hook, self.module, self.number)
            raise
        return gradients

    def _with_tuples(self, hook: Hook, places: Places, gradients: Gradients, awaited: Awaited | None) -> Gradients:
        if awaited is None:
            returned = hook.function(self.module, places.filled(gradients))
        else:
            outputs = awaited.outputs or [None] * len(self.outputs.parts)  # none, where only what it changed is used
            returned = hook.function(self.module, places.filled(gradients), self.outputs.filled(outputs))
        if returned is None:
            return gradients
        return places.taken(returned, gradients, f"{self._named(hook)}: the hook {describe_function(hook.function)}")

    def _one_by_one(self, hook: Hook, places: Places, gradients: Gradients) -> Gradients:
        wanted = self.wanted.get(hook)
        for number, gradient in enumerate(gradients):
            if gradient is None or (wanted is not None and number not in wanted):
                continue
            call = GradientCall(hook, self.module, self.number, self._passes, gradient, places, number)
            returned = hook.function(call)
            new = call.grad if returned is None else returned
            if new is not gradient:
                gradients = list(gradients)
                gradients[number] = fitting(new, gradient, call.leaf)
        return gradients

    def _named(self, hook: Hook) -> str:
        return str(getattr(hook.about, "path", type(self.module).__name__))
