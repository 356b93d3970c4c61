"""Each operation against its formula, for all shapes, dtypes and indices."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import hookline
from hookline.editing.counted_noise import normal
from hookline.errors import EditError, HookTypeError

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64]
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


class Give(nn.Module):
    """Returns a tensor of its own, as it is: an edit must not write to it."""

    def __init__(self, tensor) -> None:
        super().__init__()
        self.tensor = tensor

    def forward(self):
        return self.tensor


def edited(tensor, operation, **options):
    model = Give(tensor)
    before = tensor.clone()
    with hookline.edit(model, ".", operation, **options):
        result = model()
    assert torch.equal(tensor, before)
    assert (result.shape, result.dtype, result.device) == (tensor.shape, tensor.dtype, tensor.device)
    return result


def value_of(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.int64:
        return torch.randint(-9, 9, shape, generator=generator)
    return torch.randn(shape, generator=generator, dtype=dtype if dtype is not torch.bfloat16 else torch.float32).to(
        dtype
    )


@st.composite
def indices(draw, shape):
    """Return an index that fits the shape."""
    entries = []
    for length in shape[: draw(st.integers(1, len(shape)))]:
        entries.append(
            draw(
                st.one_of(
                    st.integers(-length, length - 1),
                    st.slices(length).filter(lambda s: s.step is None or s.step > 0),
                    st.lists(st.integers(0, length - 1), min_size=1, max_size=1),
                )
            )
        )
    if draw(st.booleans()):
        entries.append(...)
    return tuple(entries)


FORMULAS = {
    "zero": (hookline.zero, lambda x: x * 0),
    "scale": (hookline.scale(3), lambda x: x * 3),
    "add": (hookline.add(2), lambda x: x + 2),
    "replace": (hookline.replace(5), lambda x: torch.full_like(x, 5)),
}


@settings(deadline=None, max_examples=150)
@given(st.data(), SHAPES, st.sampled_from(DTYPES), st.sampled_from(sorted(FORMULAS)))
def test_an_operation_with_an_index_changes_those_elements_alone(data, shape, dtype, name) -> None:
    operation, formula = FORMULAS[name]
    index = data.draw(indices(shape))
    x = value_of(shape, dtype)
    expected = x.clone()
    tensors = tuple(torch.tensor(entry) if isinstance(entry, list) else entry for entry in index)
    expected[tensors] = formula(x[tensors])
    assert torch.equal(edited(x, operation[index]), expected)


@settings(deadline=None, max_examples=60)
@given(SHAPES, st.sampled_from(DTYPES), st.sampled_from(sorted(FORMULAS)))
def test_an_operation_without_an_index_changes_all(shape, dtype, name) -> None:
    operation, formula = FORMULAS[name]
    x = value_of(shape, dtype)
    assert torch.equal(edited(x, operation), formula(x))


def test_a_mask_and_a_new_axis_are_indices_too() -> None:
    x = value_of((3, 4), torch.float32)
    mask = torch.tensor([True, False, True])
    expected = x.clone()
    expected[mask] = 0
    assert torch.equal(edited(x, hookline.zero[mask]), expected)
    assert torch.equal(edited(x, hookline.scale(2)[None, :, 1]), torch.cat([x[:, :1], x[:, 1:2] * 2, x[:, 2:]], 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_broadcast_and_take_the_dtype_of_the_value(dtype) -> None:
    x, vector = value_of((2, 3, 4), dtype), torch.arange(4.0)
    assert torch.equal(edited(x, hookline.add(vector)), x + vector.to(dtype))
    assert torch.equal(edited(x, hookline.scale(vector)), x * vector.to(dtype))
    assert torch.equal(edited(x, hookline.replace(vector)), vector.to(dtype).expand(2, 3, 4))


@settings(deadline=None)
@given(SHAPES, st.floats(-1, 0), st.floats(0, 1))
def test_clamp_limits(shape, low, high) -> None:
    x = value_of(shape, torch.float64)
    assert torch.equal(edited(x, hookline.clamp(low, high)), x.clip(low, high))
    assert torch.equal(edited(x, hookline.clamp(hi=high)), torch.minimum(x, torch.tensor(high, dtype=x.dtype)))


@settings(deadline=None)
@given(st.data(), SHAPES)
def test_project_out_leaves_nothing_along_the_direction_and_the_rest_as_it_is(data, shape) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = value_of(shape, torch.float64)
    direction = value_of((shape[axis],), torch.float64, seed=1)
    new = edited(x, hookline.project_out(direction, axis=axis))
    unit = direction / direction.norm()
    along = torch.tensordot(x, unit, dims=([axis], [0]))
    assert torch.allclose(torch.tensordot(new, unit, dims=([axis], [0])), torch.zeros_like(along), atol=1e-9)
    removed = (x - new).movedim(axis, -1)
    assert torch.allclose(removed, along[..., None] * unit, atol=1e-9)


@settings(deadline=None)
@given(st.data(), SHAPES)
def test_swap_exchanges_two_positions(data, shape) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    i, j = (data.draw(st.integers(0, shape[axis] - 1)) for _ in range(2))
    x = value_of(shape, torch.float32)
    new = edited(x, hookline.swap(i, j, axis=axis))
    assert torch.equal(new.select(axis, i), x.select(axis, j))
    assert torch.equal(new.select(axis, j), x.select(axis, i))
    assert torch.equal(new.sum(axis), x.sum(axis)) or torch.allclose(new.sum(axis), x.sum(axis))


def test_a_function_gets_the_value_and_gives_the_new_one() -> None:
    x = value_of((2, 3), torch.float32)
    assert torch.equal(edited(x, lambda value: value.relu()), x.relu())
    assert torch.equal(edited(x, [lambda value: value.relu(), hookline.scale(2)]), x.relu() * 2)


def test_noise_is_a_function_of_seed_and_call_and_touches_no_generator() -> None:
    x = torch.zeros(50, 400)
    state = torch.get_rng_state()
    first, again, other = (edited(x, hookline.noise(2.0, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    n = x.numel()
    # Within 5 standard errors, which one sample in two million leaves.
    for sample, spread in ((first, 2.0), (other, 2.0), (first - other, math.sqrt(8))):
        assert abs(sample.mean().item()) < 5 * spread / math.sqrt(n)
        assert abs(sample.std().item() / spread - 1) < 5 / math.sqrt(2 * n)
    correlation = (first * other).mean().item() / 4
    assert abs(correlation) < 5 / math.sqrt(n)
    kurtosis = (first / 2).pow(4).mean().item()
    assert abs(kurtosis - 3) < 5 * math.sqrt(96 / n)
    assert torch.isfinite(normal(torch.zeros(200_000), 3, 0)).all()


def test_calls_have_noise_of_their_own() -> None:
    model = Give(torch.zeros(8))
    with hookline.edit(model, ".", hookline.noise(1.0, seed=0)):
        first, second = model(), model()
    with hookline.edit(model, ".", hookline.noise(1.0, seed=0)):
        again = model()
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_patch_puts_in_what_was_captured_call_by_call() -> None:
    model = Give(torch.arange(3.0))
    with hookline.capture(model, ".") as one:
        model()
    with hookline.capture(model, ".") as features:
        for k in range(2):
            model.tensor = torch.full((3,), float(k))
            model()
    model.tensor = torch.zeros(3)
    with hookline.edit(model, ".", hookline.patch(one)):
        assert [model().tolist() for _ in range(2)] == [[0, 1, 2], [0, 1, 2]]
    with hookline.edit(model, ".", hookline.patch(features)):
        assert [model().tolist() for _ in range(2)] == [[0, 0, 0], [1, 1, 1]]
        with pytest.raises(EditError, match="2 calls were captured, and this is call 2"):
            model()


def test_patch_takes_a_saved_capture_and_another_address(tmp_path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with hookline.capture(model, "0") as features:
        model(torch.ones(1, 2))
    features.save(tmp_path / "clean.safetensors")
    loaded = hookline.load_features(tmp_path / "clean.safetensors")
    with hookline.edit(model, "1", hookline.patch(loaded, "0")):
        assert torch.equal(model(torch.zeros(1, 2)), features["0"])


def test_mean_ablation_is_over_samples_and_calls_or_by_channel() -> None:
    model = nn.Sequential(nn.Identity())
    batches = [value_of((4, 3), torch.float32, seed) for seed in (1, 2)]
    with hookline.capture(model, "0") as features:
        for batch in batches:
            model(batch)
    expected = torch.cat(batches).mean(0).expand(2, 3)
    with hookline.edit(model, "0", hookline.mean(over=features)):
        assert torch.allclose(model(torch.zeros(2, 3)), expected)
    with hookline.capture(model, "0", reduce=hookline.stats) as statistics:
        for batch in batches:
            model(batch)
    with hookline.edit(model, "0", hookline.mean(over=statistics["0"])):
        assert torch.allclose(model(torch.zeros(2, 3)), expected)
    with hookline.edit(model, "0", hookline.mean(over=torch.tensor(7.0))):
        assert torch.equal(model(torch.zeros(2, 3)), torch.full((2, 3), 7.0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_flow_as_the_formula_says(dtype) -> None:
    x = value_of((2, 3), dtype).requires_grad_()
    direction = torch.tensor([1.0, 2.0, 2.0], dtype=dtype)
    operations = [hookline.scale(2)[:, 0], hookline.add(1), hookline.project_out(direction), hookline.zero[0]]
    model = nn.Identity()
    with hookline.edit(model, ".", operations):
        model(x * 1).abs().sum().backward()
    y = x.detach().clone().requires_grad_()
    h = torch.cat([y[:, :1] * 2, y[:, 1:]], 1) + 1
    h = h - ((h * direction).sum(-1, keepdim=True) / 9) * direction
    (h * torch.tensor([[0.0], [1.0]])).abs().sum().backward()
    assert torch.allclose(x.grad, y.grad)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_edits_work_in_every_autograd_mode(mode) -> None:
    with mode():
        x = value_of((2, 3), torch.float32)
        model = nn.Identity()
        with hookline.edit(model, ".", [hookline.zero[:, 1], hookline.noise(0.1, seed=0), hookline.swap(0, 2)]):
            result = model(x)
    assert result.shape == x.shape


REFUSED = {
    "index out of range": (hookline.zero[:, 9], r"0: the index \[:, 9\] does not fit a value of shape \(2, 3\)"),
    "too many axes": (hookline.zero[0, 0, 0], "does not fit a value of shape"),
    "shape": (hookline.add(torch.ones(5)), r"broadcasts to the shape \(2, 3\), got \(5,\)"),
    "larger": (hookline.add(torch.ones(2, 2, 3)), r"broadcasts to the shape \(2, 3\)"),
    "shape of a replacement": (hookline.replace(torch.ones(2, 4)), r"expected shape \(2, 3\).*got \(2, 4\)"),
    "dtype": (hookline.add(torch.ones(3, dtype=torch.complex64)), "can become torch.float32.*got torch.complex64"),
    "direction": (hookline.project_out(torch.ones(4)), "a direction of 3.*got 4"),
    "swap": (hookline.swap(0, 3), "axis -1 has 3 positions, and 0 and 3"),
    "None": (lambda value: None, "returned None"),
    "no tensor": (lambda value: "x", r"expected a tensor of shape \(2, 3\), got str"),
    "complex from a function": (lambda value: value * 1j, "expected torch.float32, got torch.complex64"),
}


@pytest.mark.parametrize(("operation", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_an_error_at_the_place(operation, message: str) -> None:
    model = nn.Sequential(nn.Identity(), nn.Linear(3, 1))
    with pytest.raises(EditError, match=message), hookline.edit(model, "0", operation):
        model(torch.ones(2, 3))
    assert type(model[0]) is nn.Identity


def test_a_fraction_is_not_for_integers() -> None:
    with pytest.raises(EditError, match=r"0\.5 cannot be had in a value of torch.int64"):
        edited(torch.arange(3), hookline.scale(0.5))
    assert edited(torch.arange(3), hookline.scale(2.0)).tolist() == [0, 2, 4]


MISTAKES = {
    "patch": lambda: hookline.patch({}),
    "mean": lambda: hookline.mean(over=5),
    "noise": lambda: hookline.noise(-1, seed=0),
    "clamp": lambda: hookline.clamp(),
    "project_out a matrix": lambda: hookline.project_out(torch.ones(2, 2)),
    "project_out nothing": lambda: hookline.project_out(torch.zeros(3)),
    "scale": lambda: hookline.scale("x"),
    "index": lambda: hookline.zero["x"],
    "no arguments": lambda: hookline.EditPlan({"0": hookline.scale}),
    "no operation": lambda: hookline.EditPlan({"0": 5}),
    "rows": lambda: hookline.EditPlan({"0": hookline.zero}, rows="x"),
    "calls": lambda: hookline.EditPlan({"0": hookline.zero}, calls=[-1]),
    "when": lambda: hookline.EditPlan({"0": hookline.zero}, when=5),
}


@pytest.mark.parametrize("make", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_refused_when_it_is_made(make) -> None:
    with pytest.raises(HookTypeError):
        make()


def test_one_index_is_enough() -> None:
    with pytest.raises(EditError, match="has an index already"):
        hookline.zero[0][1]


def test_operands_are_kept_as_they_were() -> None:
    vector = torch.ones(3)
    operation = hookline.add(vector)
    vector.zero_()
    assert edited(torch.zeros(3), operation).tolist() == [1.0, 1.0, 1.0]


def test_of_what_was_captured_the_same_elements_and_rows_are_put_in() -> None:
    model = Give(value_of((3, 4), torch.float32, seed=1))
    with hookline.capture(model, ".") as features:
        clean = model()
    x = model.tensor = value_of((3, 4), torch.float32, seed=2)
    for operation, source in (
        (hookline.patch(features), clean),
        (hookline.mean(over=features), clean.mean(0, keepdim=True).expand(3, 4)),
    ):
        expected = x.clone()
        expected[:, 1:3] = source[:, 1:3]
        assert torch.allclose(edited(x, operation[:, 1:3]), expected)
        expected = x.clone()
        expected[[0, 2]] = source[[0, 2]]
        assert torch.allclose(edited(x, operation, rows=[0, 2]), expected)
        expected = x.clone()
        expected[2, 1] = source[2, 1]
        assert torch.allclose(edited(x, operation[1, 1], rows=[0, 2]), expected)  # the second of the rows


def test_a_sweep_patches_each_copy_with_what_one_run_gave() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    clean, corrupted = torch.ones(3, 4), torch.zeros(3, 4)
    with hookline.capture(model, "*") as features:
        expected = model(clean)
    outputs = hookline.sweep(model, corrupted, [{}, {"0": hookline.patch(features)}, {"2": hookline.patch(features)}])
    assert torch.allclose(outputs[0], model(corrupted))
    assert torch.allclose(outputs[1], expected)
    assert torch.allclose(outputs[2], expected)
