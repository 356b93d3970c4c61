"""Every gradient that is reported is that of autograd on a network in which the place is a variable of its own."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

import hookline


class Rectify(nn.Module):
    """Changes its input in place."""

    def forward(self, x):
        return x.relu_()


class Mix(nn.Module):
    def forward(self, a, *, b):
        return a * b + a


class Split(nn.Module):
    def forward(self, x):
        return {"sin": x.sin(), "more": (x * 2, "text")}


class Same(nn.Module):
    def forward(self, x):
        return x


def tanh() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3, dtype=torch.float64), nn.Tanh())


# For each kind: its module, and what it does to values without anything in place. A step is (kind, operand, operand);
# operands count back from the newest value. The first of two operands is the one that may be changed in place.
KINDS = {
    "tanh": (tanh, lambda module, a, b: [module(a)]),
    "rectify": (Rectify, lambda module, a, b: [a.relu()]),
    "mix": (Mix, lambda module, a, b: [a * b + a]),
    "split": (Split, lambda module, a, b: [a.sin(), a * 2]),
    "same": (Same, lambda module, a, b: [a]),
}
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(KINDS)), st.integers(0, 2), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=6,
)


def modules_for(steps) -> list[nn.Module]:
    """Return the module of each step; one that is marked shares the latest module of its kind."""
    torch.manual_seed(0)
    made: list[nn.Module] = []
    latest: dict[str, nn.Module] = {}
    for kind, _, _, shared in steps:
        if not (shared and kind in latest):
            latest[kind] = KINDS[kind][0]()
        made.append(latest[kind])
    return made


def pick(values: list, back: int) -> int:
    return max(len(values) - 1 - back, 0)


class Net(nn.Module):
    """Runs the steps with modules."""

    def __init__(self, steps) -> None:
        super().__init__()
        self.steps = steps
        self.layers = nn.ModuleList(modules_for(steps))

    def forward(self, x):
        values = [x * 1]
        for (kind, first, second, _), module in zip(self.steps, self.layers, strict=True):
            a, b = values[pick(values, first)], values[pick(values, second)]
            if kind == "mix":
                values.append(module(a, b=b))
            elif kind == "split":
                out = module(a)
                values.extend((out["sin"], out["more"][0]))
            else:
                values.append(module(a))
        return sum((value * (index + 1)).sum() for index, value in enumerate(values))


class Scale(torch.autograd.Function):
    """Returns its input, and multiplies the gradient: the change of a gradient by hand."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def shares_changed_memory(steps) -> bool:
    """Return whether a value that two steps have under different names is changed in place.

    Such a change goes by way of either: the gradient at a place is then a matter of definition.
    """
    groups = [0]
    for number, (kind, first, _, _) in enumerate(steps, start=1):
        group = groups[pick(groups, first)]
        if kind == "rectify" and sum(other == group for other in groups) > 1:
            return True
        groups.extend({"same": [group], "rectify": [group], "split": [number, -number]}.get(kind, [number]))
        if kind == "rectify":
            groups[-1] = -1000 - number
            groups = [groups[-1] if other == group else other for other in groups]
    return False


def by_hand(net: Net, x: torch.Tensor, factors: dict[str, float]):
    """Return the loss, and for each place the variables (zeros that are added there) whose gradients are asked for."""
    variables: dict[tuple[int, str], list[torch.Tensor]] = {}

    def place(step: int, side: str, tensor: torch.Tensor) -> torch.Tensor:
        variable = torch.zeros_like(tensor, requires_grad=True)
        variables.setdefault((step, side), []).append(variable)
        return Scale.apply(tensor, factors.get(side, 1)) + variable

    values = [x * 1]
    names = [0]  # equal for values that are one tensor
    for step, (kind, first, second, _) in enumerate(net.steps):
        one, two = pick(values, first), pick(values, second)
        apart = {names[one]: place(step, "in", values[one])}
        if kind == "mix" and names[two] != names[one]:
            apart[names[two]] = place(step, "in", values[two])
        results = KINDS[kind][1](net.layers[step], apart[names[one]], apart.get(names[two]))
        results = [place(step, "out", result) for result in results]
        if kind == "rectify":  # in place: whoever holds the operand holds the result from now on
            old = names[one]
            values = [results[0] if name == old else value for value, name in zip(values, names, strict=True)]
            names.append(old)
        else:
            names.extend(1 + max(names) + index for index in range(len(results)))
        values.extend(results)
    return sum((value * (index + 1)).sum() for index, value in enumerate(values)), variables


def hooked(net: Net, x: torch.Tensor, factors: dict[str, float]):
    """Return the loss's gradients by step, side and tensor, as our hooks see them before they change them."""
    seen: dict[tuple[int, str], dict[int, torch.Tensor]] = {}
    steps_of = {id(m): [i for i, other in enumerate(net.layers) if other is m] for m in net.layers}

    def keep(side):
        def hook(call):
            step = steps_of[id(call.module)][call.number]
            seen.setdefault((step, side), {})[call.place] = call.grad
            return call.grad * factors[side] if side in factors else None

        return hook

    with hookline.Hooks(net) as hooks:
        hooks.gradient("layers.?:output", keep("out"))
        hooks.gradient("layers.?:input", keep("in"))
        net(x).backward()
    return seen


X = torch.linspace(-1.2, 1.3, 6, dtype=torch.float64).reshape(2, 3)


@given(STEPS, st.dictionaries(st.sampled_from(["in", "out"]), st.floats(-2, 2).map(lambda k: round(k, 2))))
@settings(max_examples=120, deadline=None)
def test_gradients_and_changes_of_them_equal_those_by_hand(steps, factors) -> None:
    net = Net(steps)
    try:
        net(X.clone().requires_grad_()).backward()
    except RuntimeError as error:  # a program that autograd refuses with or without us
        assume("modified by an inplace operation" not in str(error))
        raise
    assume(not shares_changed_memory(steps))
    net.zero_grad()
    x = X.clone().requires_grad_()
    seen = hooked(net, x, factors)
    ours = [x.grad, *(p.grad for p in net.parameters())]

    net.zero_grad()
    x = X.clone().requires_grad_()
    loss, variables = by_hand(net, x, factors)
    loss.backward()
    theirs = [x.grad, *(p.grad for p in net.parameters())]
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other), steps
    for place, wanted in variables.items():
        for number, variable in enumerate(wanted):
            assert torch.allclose(seen[place][number], variable.grad), (steps, place)


# A place whose value nobody uses before it is changed by way of another name has no gradient.
@pytest.mark.filterwarnings("ignore::hookline.NeverFiredWarning")
@given(STEPS)
@settings(max_examples=120, deadline=None)
def test_hooks_that_change_nothing_leave_all_gradients_as_they_are(steps) -> None:
    net = Net(steps)
    x = X.clone().requires_grad_()
    try:
        net(x).backward()
    except RuntimeError as error:
        assume("modified by an inplace operation" not in str(error))
        raise
    bare = [x.grad, *(p.grad for p in net.parameters())]
    net.zero_grad()
    x = X.clone().requires_grad_()
    hooked(net, x, {})
    for one, other in zip([x.grad, *(p.grad for p in net.parameters())], bare, strict=True):
        assert torch.equal(one, other) or torch.allclose(one, other, rtol=1e-12), steps
