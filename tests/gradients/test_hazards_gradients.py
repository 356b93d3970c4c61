"""What goes wrong with gradients in the field, and what is right: HAZARDS, area G."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import hookline
from benchmarks.models import efficientnet
from hookline.errors import HookRefusedError


class Block(nn.Module):
    """A residual block as torchvision has it: in-place ReLUs, and `out += identity`."""

    def __init__(self, inplace: bool = True) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=inplace)
        self.inplace = inplace

    def forward(self, x):
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        if self.inplace:
            out += x
        else:
            out = out + x
        return self.relu(out)


def resnet(inplace: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 3, 1), Block(inplace), Block(inplace), nn.Flatten(), nn.Linear(75, 2))


def gradients_of(model: nn.Module, x: torch.Tensor, where=("**:output.grad", "**:input.grad")):
    """Return all gradients that are captured, and those of the parameters."""
    with hookline.capture(model, *where, strict=True) as features:
        model(x).square().sum().backward()
    values = {address: features.calls(address) for address in features}
    return values, [p.grad for p in model.parameters()]


def assert_same(one, other) -> None:
    pairs = torch.utils._pytree.tree_leaves(one), torch.utils._pytree.tree_leaves(other)
    for a, b in zip(*pairs, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b, atol=1e-6)


def test_a_resnet_with_in_place_operations_has_the_gradients_of_one_without() -> None:  # G1
    x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    model, clean = resnet(), resnet(inplace=False)
    x.requires_grad_()
    values, parameters = gradients_of(model, x)
    expected, clean_parameters = gradients_of(clean, x)
    assert values.keys() == expected.keys()
    assert_same(values, expected)
    assert_same(parameters, clean_parameters)


def test_at_a_residual_branch_the_gradient_is_that_of_the_branch_alone() -> None:  # G2
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Tanh()

        def forward(self, x):
            return x + self.f(x)

    x = torch.tensor([0.5, -1.0], requires_grad=True)
    with hookline.capture(Residual(), "f:input.grad", "f:output.grad") as features:
        features._session._model(x).sum().backward()
    slope = 1 - torch.tanh(x.detach()) ** 2
    assert torch.allclose(features["f:input.grad"][0], slope)
    assert features["f:output.grad"].tolist() == [1.0, 1.0]
    assert torch.allclose(x.grad, 1 + slope)


@pytest.mark.parametrize("where", ["f:output.grad", "f:input.0.grad"])
def test_a_module_that_returns_its_input_is_told_apart_from_others_that_use_it(where: str) -> None:  # G3
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Identity()

        def forward(self, x):
            h = x * 1
            return self.f(h) * 5 + h * 7

    x = torch.ones(2, requires_grad=True)
    with hookline.capture(Skip(), where) as features:
        features._session._model(x).sum().backward()
    assert features[where].tolist() == [5.0, 5.0]
    assert x.grad.tolist() == [12.0, 12.0]


class Structured(nn.Module):
    def forward(self, x, *, scale):
        return {"a": x * scale["by"], "b": [x + 1, None]}


def test_tensors_in_dicts_and_by_keyword_are_reported_by_part() -> None:  # G4
    model, leaves = Structured(), {}
    x, by = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    with hookline.Hooks(model) as hooks:
        hooks.gradient(".:output", lambda call: leaves.update({call.leaf: call.grad.tolist()}))
        hooks.gradient(".:input", lambda call: leaves.update({call.leaf: call.grad.tolist()}))
        out = model(x, scale={"by": by})
        (out["a"] * 2 + out["b"][0] * 5).sum().backward()
    assert leaves == {
        ".:output.a": [2.0, 2.0],
        ".:output.b.0": [5.0, 5.0],
        ".:input.x": [11.0, 11.0],
        ".:input.scale.by": [2.0, 2.0],
    }


def test_a_module_may_write_to_a_list_that_it_is_given() -> None:  # G4: what is set apart must not lose the state
    class Cell(nn.Module):
        def forward(self, states):
            states.append(states[-1] * 2)
            states[0] = states[0] + 1
            return states[-1] + 0

    x = torch.ones(2, requires_grad=True)
    first = x * 1
    states = [first]
    cell, seen = Cell(), []
    hookline.register_full_backward_hook(cell, lambda module, grad_input, grad_output: seen.append(grad_input))
    cell(states).sum().backward()
    assert [state.tolist() for state in states] == [[2.0, 2.0], [2.0, 2.0]]
    assert seen[0][0][0].tolist() == [2.0, 2.0]


def test_each_call_of_a_recurrent_module_has_its_own_event_and_number() -> None:  # G5
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Tanh()

        def forward(self, x):
            for _ in range(3):
                x = self.cell(x) * 2
            return x

    model, events = Recurrent(), []
    x = torch.full((1,), 0.1, requires_grad=True)
    with hookline.Hooks(model) as hooks:
        hooks.gradient("cell", lambda call: events.append((call.number, call.grad.item())))
        model(x).sum().backward()
    h1 = 2 * torch.tanh(torch.tensor(0.1))
    h2 = 2 * torch.tanh(h1)
    g1 = 2 * 2 * (1 - torch.tanh(h2) ** 2)
    g0 = g1 * 2 * (1 - torch.tanh(h1) ** 2)
    assert [number for number, _ in events] == [2, 1, 0]
    assert [gradient for _, gradient in events] == pytest.approx([2.0, g1.item(), g0.item()])


def test_a_first_layer_that_gets_no_gradient_for_its_input_fires_all_the_same() -> None:  # G6
    model, seen = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), []
    model[0].requires_grad_(requires_grad=False)
    hookline.register_full_backward_hook(model[1], lambda module, gi, go: seen.append((gi, go)))
    hooks = hookline.Hooks(model)
    hooks.gradient("0", lambda call: seen.append(call))
    hooks.gradient("1:input", lambda call: seen.append(call))
    model(torch.ones(1, 2)).sum().backward()
    with pytest.warns(hookline.NeverFiredWarning) as caught:
        hooks.__exit__(None, None, None)
    assert "no tensor in its output requires a gradient" in str(caught[0].message)
    assert "no tensor in its arguments requires a gradient" in str(caught[0].message)
    ((grad_input, grad_output),) = seen
    assert grad_input == (None,)
    assert grad_output[0].tolist() == [[1.0, 1.0]]


def test_autograd_grad_for_some_inputs_only_tells_what_it_computes() -> None:  # G7
    model, seen = nn.Linear(2, 2), []
    hookline.register_full_backward_hook(model, lambda module, gi, go: seen.append((gi, go)))
    x = torch.ones(1, 2, requires_grad=True)
    torch.autograd.grad(model(x).sum(), model.weight)
    assert seen[0][0] == (None,)  # that of the input was not asked for, and not computed
    assert seen[0][1][0].tolist() == [[1.0, 1.0]]
    assert not model.weight._backward_hooks
    torch.autograd.grad(model(x).sum(), x)
    assert torch.allclose(seen[1][0][0], model.weight.detach().sum(0)[None])


def test_each_pass_through_a_retained_graph_fires_and_is_told_apart() -> None:  # G7
    model, events = nn.Tanh(), []
    x = torch.ones(1, requires_grad=True)
    with hookline.Hooks(model) as hooks, hookline.capture(model, ".:output.grad") as features:
        hooks.gradient(".", lambda call: events.append((call.backward_pass, call.number, call.grad.item())))
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        (loss * 3).backward()
    assert events == [(0, 0, 1.0), (1, 0, 3.0)]
    assert [value.item() for value in features.calls(".:output.grad")] == [1.0, 3.0]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("calls", [1, 2], ids=["one call a region", "two calls a region"])
def test_under_checkpointing_gradients_are_right_and_numbered_as_the_forward_calls(reentrant, calls) -> None:  # G8
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc = nn.Linear(3, 3)
            self.act = nn.ReLU(inplace=True)

        def region(self, x):
            for _ in range(calls):
                x = self.act(self.fc(x))
            return x

        def forward(self, x, *, saving):
            return sum(
                (checkpoint(self.region, x * k, use_reentrant=reentrant) if saving else self.region(x * k)).sum() * k
                for k in (1, 2, 3)
            )

    def run(*, saving):
        model, events = Model(), {}
        x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        with hookline.Hooks(model) as hooks:
            hooks.gradient("fc", lambda call: events.update({("out", call.number): call.grad.clone()}))
            hooks.gradient("act:input", lambda call: events.update({("in", call.number): call.grad.clone()}))
            model(x, saving=saving).backward()
        return events, x.grad, [p.grad for p in model.parameters()]

    events, x_grad, parameters = run(saving=True)
    expected, expected_x, expected_parameters = run(saving=False)
    assert {key: events[key] for key in sorted(events)}.keys() == dict.fromkeys(sorted(expected)).keys()
    assert_same([events[key] for key in sorted(events)], [expected[key] for key in sorted(expected)])
    assert_same((x_grad, parameters), (expected_x, expected_parameters))


def test_a_doubled_gradient_is_what_doubling_it_by_hand_gives() -> None:  # G9
    model = resnet()
    x = torch.randn(2, 3, 5, 5)
    model(x)
    model.eval()

    def by_hand():
        h = model[1](model[0](x))
        h.register_hook(lambda gradient: gradient * 2)
        return model[4](model[3](model[2](h)))

    by_hand().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with hookline.Hooks(model) as hooks:
        hooks.gradient("1", lambda call: call.grad * 2)
        model(x).sum().backward()
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True))


def test_under_a_grad_scaler_the_gradient_is_the_scaled_one_unless_it_is_to_be_divided() -> None:  # G10
    model, seen = nn.Linear(2, 1), {}
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with hookline.Hooks(model) as hooks:
        hooks.gradient(".", lambda call: seen.update(scaled=call.grad.item()))
        hooks.gradient(".", lambda call: seen.update(true=call.grad.item()) or call.grad * 3, unscale=scaler)
        hooks.gradient(".", lambda call: seen.update(half=call.grad.item()), unscale=2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.ones(1, 2)).float().sum()
        scaler.scale(loss).backward()
    assert seen == {"scaled": 1024.0, "true": 1.0, "half": 1536.0}
    assert model.bias.grad.item() == 3 * 1024.0


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_in_a_compiled_model_hooks_fire_with_right_gradients(backend: str, late: bool) -> None:  # G11
    torch._dynamo.reset()

    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))

    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    values, parameters = gradients_of(make(), x)
    model = make()
    compiled = torch.compile(model, backend=backend)
    if late:
        compiled(x).sum().backward()
        model.zero_grad()
    with hookline.capture(model, "**:output.grad", "**:input.grad") as features:
        compiled(x).square().sum().backward()
    assert_same({address: features.calls(address) for address in features}, values)
    assert_same([p.grad for p in model.parameters()], parameters)


def test_in_fullgraph_mode_a_hook_on_gradients_is_an_error_and_not_ignored() -> None:  # G11
    torch._dynamo.reset()
    model = nn.Tanh()
    hookline.register_full_backward_hook(model, lambda *_: None)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="run in Python"):
        torch.compile(model, backend="eager", fullgraph=True)(torch.ones(1, requires_grad=True))


def test_training_with_hooks_on_every_module_keeps_nothing() -> None:  # G12
    model = resnet()
    x = torch.randn(2, 3, 5, 5)
    model(x)
    with hookline.Hooks(model) as hooks:
        hooks.gradient("**", lambda call: None)
        hooks.gradient("**:input", lambda call: None)
        hooks.after_backward("**", lambda call: None)
        sizes, outputs = [], []
        x.requires_grad_()
        for step in range(100):
            out = model(x)
            outputs.append(weakref.ref(out))
            out.sum().backward()
            model.zero_grad()
            x.grad = None
            del out
            if step % 24 == 3:
                gc.collect()
                sizes.append(sum(type(each) in (torch.Tensor, nn.Parameter) for each in gc.get_objects()))
    assert len(sizes) == 5
    assert len(set(sizes)) == 1
    assert not any(ref() is not None for ref in outputs)


def test_after_the_graph_is_gone_no_captured_gradient_holds_it() -> None:  # C8
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with hookline.capture(model, "0:output.grad") as features:
        x = torch.ones(1, 2, requires_grad=True)
        middle = x * 2
        ref = weakref.ref(middle)
        model(middle).sum().backward()
        del middle
    gc.collect()
    assert ref() is None
    assert not features["0:output.grad"].requires_grad


def test_a_backward_pass_that_fails_leaves_nothing_behind_for_the_next() -> None:
    model, events = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), []
    failing = [True]

    def fail(call):
        if failing:
            failing.pop()
            raise ValueError("first pass")

    with hookline.Hooks(model) as hooks, hookline.capture(model, "**:input.grad", "**:output.grad") as features:
        hooks.gradient("0", fail)
        hooks.after_backward("0", lambda call: events.append(sorted(call.parameter_grads)))
        x = torch.ones(1, 2, requires_grad=True)
        with pytest.raises(ValueError, match="first pass"):
            model(x).sum().backward()
        model(x).sum().backward()
    assert events == [["bias", "weight"]]
    assert len(features.calls("0:input.grad")) == 1
    assert not any(p._backward_hooks for p in model.parameters())


def test_on_the_real_efficientnet_every_gradient_equals_that_of_autograd() -> None:
    model, x = efficientnet()
    x = x[:, :, :96, :96]
    paths = [path for path, module in model.named_modules() if path and not list(module.children())]
    outputs: dict[str, list[torch.Tensor]] = {}
    handles = [
        model.get_submodule(path).register_forward_hook(
            lambda m, args, out, path=path: outputs.setdefault(path, []).append(out)
        )
        for path in paths
    ]
    loss = model(x).square().sum()
    for handle in handles:
        handle.remove()
    flat = [(path, tensor) for path in outputs for tensor in outputs[path] if tensor.requires_grad]
    # autograd.grad has other users of a tensor in it where a module returns its input, and stands for the new value
    # where a tensor was changed in place afterwards: those are left out.
    expected = torch.autograd.grad(loss, [tensor for _, tensor in flat], allow_unused=True)
    changed = {path for path, module in model.named_modules() if getattr(module, "inplace", False)}
    changed |= {path for path, module in model.named_modules() if type(module).__name__ == "Identity"}
    with hookline.capture(model, *(f"{path}:output.grad" for path in dict(flat))) as features:
        model(x).square().sum().backward()
    compared = 0
    for (path, tensor), gradient in zip(flat, expected, strict=True):
        if tensor._version == 0 and len(outputs[path]) == 1 and path not in changed:
            assert torch.allclose(features[f"{path}:output.grad"], gradient, rtol=1e-4, atol=1e-6), path
            compared += 1
    assert compared > 60


@pytest.fixture(scope="module")
def process_group(tmp_path_factory):
    if not torch.distributed.is_available():
        pytest.skip("torch was built without torch.distributed")
    file = tmp_path_factory.mktemp("gloo") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning:torch.distributed", "ignore::FutureWarning")
@pytest.mark.parametrize("wrapped", ["ddp", "fsdp2"])
def test_hooks_fire_in_a_distributed_model(process_group, wrapped: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))

    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    expected, _ = gradients_of(make(), x, where=("0:output.grad", "1:input.grad"))
    bare = make()
    bare(x).square().sum().backward()
    model, grads = make(), {}
    if wrapped == "ddp":
        outer = DistributedDataParallel(model)
    else:
        outer = fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    with hookline.capture(model, "0:output.grad", "1:input.grad") as features, hookline.Hooks(model) as hooks:
        hooks.after_backward("0", lambda call: grads.update(call.parameter_grads))
        outer(x).square().sum().backward()
    assert_same({address: features.calls(address) for address in features}, expected)
    assert_same([grads["weight"], grads["bias"]], [bare[0].weight.grad, bare[0].bias.grad])


def test_in_torch_func_gradients_are_refused_in_words() -> None:
    model = nn.Linear(2, 1)
    hookline.register_full_backward_hook(model, lambda *_: None)
    parameters = dict(model.named_parameters())

    def loss(parameters):
        return torch.func.functional_call(model, parameters, torch.ones(1, 2)).sum()

    with pytest.raises(HookRefusedError, match=r"a transform of torch\.func"):
        torch.func.grad(loss)(parameters)
    loss(parameters).backward()  # without a transform it is an ordinary call


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_traced_or_exported_program_cannot_have_them_and_says_so() -> None:
    model, x = nn.Tanh(), torch.ones(1, requires_grad=True)
    hookline.register_full_backward_hook(model, lambda *_: None)
    with pytest.raises(HookRefusedError, match="exported or traced"):
        torch.jit.trace(model, (x,), check_trace=False)
    with pytest.raises(Exception, match=r"exported or traced|run in Python"):
        torch.export.export(model, (x,))


def test_on_a_gpt2_every_gradient_equals_that_of_autograd() -> None:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=30, n_positions=8, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(0)
    model, ids = GPT2Model(config).eval().double(), torch.arange(6)[None]
    outputs: dict[str, torch.Tensor] = {}
    handles = []
    for path, module in model.named_modules():
        if path and not list(module.children()) and not isinstance(module, nn.Dropout):  # dropout hands its input on

            def keep(module, args, output, path=path):
                outputs[path] = output

            handles.append(module.register_forward_hook(keep))
    loss = model(ids).last_hidden_state.square().sum()
    for handle in handles:
        handle.remove()
    expected = dict(zip(outputs, torch.autograd.grad(loss, list(outputs.values())), strict=True))
    with hookline.capture(model, *(f"{path}:output.grad" for path in outputs)) as features:
        model(ids).last_hidden_state.square().sum().backward()
    assert len(expected) > 15
    for path, gradient in expected.items():
        assert torch.allclose(features[f"{path}:output.grad"], gradient), path
