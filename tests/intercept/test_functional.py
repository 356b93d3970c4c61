"""Hooks on the torch functions that a module calls itself."""

import copy
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody writes it
from transformers import GPT2Config, GPT2Model

import hookline
from hookline.errors import AddressError, HookRefusedError, NeverFiredError, PartError
from hookline.intercept.functional.naming import name_of, signature_of

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / 2
        return torch.softmax(scores, dim=-1) @ self.v(x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()
        self.act = nn.ReLU()

    def forward(self, x):
        return F.relu(x + self.attn(x)) + self.act(x)


def softmax_of(attention: Attention, x: torch.Tensor) -> torch.Tensor:
    return ((attention.q(x) @ attention.k(x).T) / 2).softmax(-1)


SPELT = {
    "torch.softmax": lambda x: torch.softmax(x, -1),
    "F.softmax": lambda x: F.softmax(x, dim=-1),
    "Tensor.softmax": lambda x: x.softmax(-1),
}


class Calling(nn.Module):
    def __init__(self, run) -> None:
        super().__init__()
        self.run = run

    def forward(self, x):
        return self.run(x)


@pytest.mark.parametrize("run", SPELT.values(), ids=SPELT.keys())
def test_a_function_has_one_name_however_it_is_called(run) -> None:
    with hookline.capture(Calling(run), "./softmax") as features:
        features._session._model(X)
    assert torch.equal(features["./softmax"], X.softmax(-1))


OPERATORS = {
    "add": (lambda x: x + 1, X + 1),
    "sub": (lambda x: x - 1, X - 1),
    "rsub": (lambda x: 1 - x, 1 - X),
    "mul": (lambda x: 2 * x, 2 * X),
    "div": (lambda x: x / 2, X / 2),
    "matmul": (lambda x: x @ x.T, X @ X.T),
    "neg": (lambda x: -x, -X),
    "pow": (lambda x: x**2, X**2),
    "gt": (lambda x: x > 0, X > 0),
    "getitem": (lambda x: x[0], X[0]),
    "add_": (lambda x: x.clone().add_(1), X + 1),
    "relu_": (lambda x: x.clone().relu_(), X.relu()),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_functions_too(name: str) -> None:
    run, expected = OPERATORS[name]
    with hookline.capture(Calling(run), f"./{name}") as features:
        features._session._model(X)
    assert torch.equal(features[f"./{name}"], expected)


def test_only_what_the_module_calls_itself_is_seen() -> None:
    model = Block()
    with hookline.capture(model, "./relu", "./add", "attn/softmax") as features:
        model(X)
    assert len(features.calls("./relu")) == 1  # not that of the ReLU inside
    assert torch.equal(features["attn/softmax"], softmax_of(model.attn, X))
    with pytest.raises(NeverFiredError, match=r"\. called no softmax in its own forward; it called: add x 2, relu"):
        with hookline.capture(model, "./softmax", strict=True):
            model(X)


def test_of_several_calls_one_is_named_by_its_number() -> None:
    model = Block()
    with hookline.capture(model, "attn/matmul", "attn/matmul#0", "attn/matmul#1") as features:
        model(X)
        model(X)  # numbers begin anew with each call of the module
    assert len(features.calls("attn/matmul")) == 4
    first, second = features.calls("attn/matmul#0")[0], features.calls("attn/matmul#1")[0]
    assert torch.equal(first / 2, (model.attn.q(X) @ model.attn.k(X).T) / 2)
    assert second.shape == (3, 4)
    with pytest.raises(NeverFiredError, match="attn called matmul 2 times, counted from 0"):
        with hookline.capture(model, "attn/matmul#2", strict=True):
            model(X)


def test_hooks_before_after_and_around_change_a_function_as_they_do_a_module() -> None:
    model = Block()
    with hookline.Hooks(model) as hooks:
        hooks.before("attn/softmax:input.input", lambda call: call.value * 0)
        uniform = model.attn(X)
    assert torch.allclose(uniform, model.attn.v(X).mean(0).expand(3, 4))
    with hookline.Hooks(model) as hooks:
        hooks.after("attn/softmax", lambda call: torch.eye(3))
        assert torch.equal(model.attn(X), torch.eye(3) @ model.attn.v(X))
    with hookline.Hooks(model) as hooks:
        hooks.around("./relu", lambda call, proceed: call.args[0])
        assert torch.equal(model(X), X + model.attn(X) + model.act(X))


def test_arguments_have_the_names_of_the_function() -> None:
    model, seen = Block(), []
    with hookline.Hooks(model) as hooks:
        hooks.before("attn/softmax", lambda call: seen.append(dict(call.arguments._bound().by_name())))
        model(X)
        hooks.before("attn/softmax:input.imput", lambda call: None)
        with pytest.raises(PartError, match="there is no argument 'imput'; there are: input, dim, dtype"):
            model(X)
    assert seen[0]["dim"] == -1


class Fused(nn.Module):
    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def test_a_fused_function_has_its_inputs_by_name() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    address = "./scaled_dot_product_attention"
    with hookline.capture(Fused(), f"{address}:input.query", f"{address}#0:input.value", address) as features:
        features._session._model(q, k, v)
    assert torch.equal(features[f"{address}:input.query"], q)
    assert torch.equal(features[f"{address}#0:input.value"], v)
    assert torch.equal(features[address], F.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention_of_gpt2_is_reached(implementation: str) -> None:
    config = GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=20, n_positions=8, bos_token_id=0, eos_token_id=0)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    model, ids = GPT2Model(config).eval(), torch.arange(5)[None]
    listed = {info.address for info in hookline.functions(model, ids)}
    name = "softmax" if implementation == "eager" else "scaled_dot_product_attention"
    assert f"h.0.attn/{name}" in listed
    with hookline.capture(model, f"h.*.attn/{name}") as features:
        model(ids)
    assert len(features) == 2
    if implementation == "eager":
        weights = model(ids, output_attentions=True).attentions
        assert torch.equal(features["h.1.attn/softmax"], weights[1])


def test_captured_values_are_true_after_a_change_in_place() -> None:  # C1
    model = Calling(lambda x: (x + 1).mul_(0))
    with hookline.capture(model, "./add") as features:
        model(X)
    assert torch.equal(features["./add"], X + 1)


def test_gradients_of_functions_are_reported_and_changed() -> None:
    model = Block()
    with hookline.capture(model, "attn/softmax:output.grad", "attn/softmax:input.input.grad") as features:
        model.attn(X).sum().backward()
    weights = softmax_of(model.attn, X).detach().requires_grad_()
    (weights @ model.attn.v(X)).sum().backward()
    assert torch.allclose(features["attn/softmax:output.grad"], weights.grad)
    leaves = []
    model.zero_grad()
    with hookline.Hooks(model) as hooks:
        hooks.gradient("attn/softmax:input", lambda call: leaves.append(call.leaf))
        hooks.gradient("attn/softmax", lambda call: call.grad * 0)
        model.attn(X).sum().backward()
    assert leaves == ["attn/softmax:input.input"]
    assert not model.attn.q.weight.grad.any()


def test_edits_work_on_functions() -> None:
    model = Block()
    with hookline.edit(model, "attn/softmax", hookline.zero[:, 0]):
        edited = model.attn(X)
    weights = softmax_of(model.attn, X)
    weights[:, 0] = 0
    assert torch.allclose(edited, weights @ model.attn.v(X))


def test_the_list_of_functions_has_addresses_that_can_be_used() -> None:
    model = Block()
    listed = hookline.functions(model, X)
    assert [(info.address, info.calls) for info in listed if info.address.startswith("attn/")] == [
        ("attn/transpose", 1),
        ("attn/matmul#0", 2),
        ("attn/div", 1),
        ("attn/softmax", 1),
        ("attn/matmul#1", 2),
    ]
    with hookline.capture(model, *(info.address for info in listed), strict=True) as features:
        model(X)
    assert len(features) == len(listed)
    assert "attn/softmax" in str(listed)
    assert "input, dim, dtype" in str(listed)
    assert str(hookline.functions(nn.Identity(), X)) == "no function was called"


def test_the_module_is_as_before_when_the_last_hook_is_gone() -> None:
    model = Block()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    hooks = hookline.Hooks(model)
    made = hooks.after("attn/softmax", lambda call: None)
    other = hooks.after("attn/matmul", lambda call: None)
    assert type(model.attn) is not Attention
    made.disable()
    model(X)
    made.enable()
    model(X)
    assert [record.fired for record in made] == [1]
    other.remove()
    assert type(model.attn) is not Attention
    hooks.remove()
    assert type(model.attn) is Attention
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def test_copies_have_no_hooks_on_functions() -> None:  # E1
    model, seen = Block(), []
    hooks = hookline.Hooks(model)
    hooks.after("attn/softmax", lambda call: seen.append(1))
    twin = copy.deepcopy(model)
    twin(X)
    assert seen == []
    assert type(twin.attn) is Attention
    hooks.remove()


def test_hooks_on_and_reports_name_the_function() -> None:
    model = Block()
    with hookline.Hooks(model) as hooks:
        hooks.after("attn/softmax#0", lambda call: None)
        (info,) = hookline.hooks_on(model)
        model(X)
    assert (info.path, info.owner, info.kind) == ("attn", "hookline.Hooks", "after /softmax#0")
    assert [row.address for row in hooks.report().rows] == ["attn/softmax#0"]


def test_two_groups_on_one_module_do_not_disturb_each_other() -> None:  # E5
    model, order = Block(), []
    with hookline.Hooks(model) as one, hookline.Hooks(model) as two:
        one.after("attn/softmax", lambda call: order.append("one"))
        two.after("attn/softmax", lambda call: order.append("two"), priority=1)
        two.after("attn/softmax#0", lambda call: order.append("inner"))
        model(X)
    assert order == ["inner", "two", "one"]


def test_an_error_in_a_function_or_a_hook_leaves_nothing_behind() -> None:  # E4
    model = Block()

    def fail(call):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught, hookline.Hooks(model) as hooks:
        hooks.after("attn/softmax", fail)
        model(X)
    assert "'attn'" in caught.value.__notes__[0]
    assert not torch.overrides._is_torch_function_mode_enabled()
    with pytest.raises(RuntimeError), hookline.capture(model, "attn/softmax"):
        model(torch.ones(3, 5))
    assert not torch.overrides._is_torch_function_mode_enabled()


def test_other_threads_see_the_functions_of_their_own_calls() -> None:  # E11
    model, seen = Block(), []
    with hookline.Hooks(model) as hooks:
        hooks.after("attn/softmax", lambda call: seen.append(threading.current_thread().name))
        threads = [threading.Thread(target=lambda: [model(X) for _ in range(20)], name=name) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 80
    assert set(seen) == set("abcd")


def test_a_context_group_sees_its_own_calls_only() -> None:  # E12
    model, seen = Block(), []
    with hookline.Hooks(model, scope="context") as hooks:
        hooks.after("attn/softmax", lambda call: seen.append(1))
        thread = threading.Thread(target=lambda: model(X))
        thread.start()
        thread.join()
        assert seen == []
        model(X)
    assert seen == [1]


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_compiled_model_leaves_the_named_module_to_python(late: bool) -> None:  # X1
    torch._dynamo.reset()
    model = Block()
    compiled = torch.compile(model, backend="aot_eager")
    if late:
        compiled(X)
    with hookline.capture(model, "attn/softmax") as features:
        assert torch.allclose(compiled(X), model(X))
    assert all(torch.allclose(value, softmax_of(model.attn, X)) for value in features.calls("attn/softmax"))
    assert len(features.calls("attn/softmax")) == 2
    torch._dynamo.reset()
    hooks = hookline.Hooks(model)
    hooks.after("attn/softmax", lambda call: None)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="run in Python"):
        torch.compile(model, backend="eager", fullgraph=True)(X)
    hooks.remove()


def test_looking_at_a_function_may_end_before_backward_under_checkpointing() -> None:  # G8
    from torch.utils.checkpoint import checkpoint

    model = Block()
    with hookline.capture(model, "attn/softmax"):
        loss = checkpoint(model, X, use_reentrant=False).sum()
    loss.backward()
    with hookline.edit(model, "attn/softmax", hookline.scale(2)):
        loss = checkpoint(model, X, use_reentrant=False).sum()
    with pytest.raises(hookline.RecomputeError, match="'attn'"):
        loss.backward()


def test_a_function_inside_another_is_not_seen_and_the_report_says_what_was() -> None:
    attention = nn.MultiheadAttention(4, 2)
    with pytest.raises(NeverFiredError, match=r"it called: .*multi_head_attention_forward"):
        with hookline.capture(attention, "./softmax", strict=True):
            attention(X[:, None], X[:, None], X[:, None])


def test_a_function_of_another_method_is_named_with_it() -> None:
    class Coder(nn.Module):
        def encode(self, x):
            return x.relu()

        def forward(self, x):
            return self.encode(x) + 1

    with hookline.capture(Coder(), "encode()/relu") as features:
        features._session._model(X)
    assert torch.equal(features["encode()/relu"], X.relu())


def test_what_a_function_cannot_have_is_refused() -> None:
    hooks = hookline.Hooks(Block())
    with pytest.raises(AddressError, match="has no parameters"):
        hooks.after_backward("attn/softmax", lambda call: None)
    with pytest.raises(HookRefusedError):
        scripted = nn.Sequential(torch.jit.script(nn.ReLU()))
        hookline.Hooks(scripted).after("0/relu", lambda call: None)


def test_properties_and_conversions_to_python_are_no_functions() -> None:
    assert name_of(torch.Tensor.shape.__get__) is None
    assert name_of(torch.Tensor.__len__) is None
    assert name_of(torch.Tensor.__radd__) == "add"


def test_a_function_without_a_schema_has_arguments_by_position() -> None:
    signature = signature_of(torch.Tensor.__getitem__, (X, 0), {})
    assert [p.kind.name for p in signature.parameters.values()] == ["VAR_POSITIONAL", "VAR_KEYWORD"]
    assert list(signature_of(torch.add, (X, X), {"alpha": 2}).parameters) == ["input", "other", "alpha"]
