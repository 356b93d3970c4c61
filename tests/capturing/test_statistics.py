import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hookline
from hookline.errors import CallsError, CaptureError, HookTypeError


def gathered(*tensors: torch.Tensor, **options) -> hookline.Stats:
    accumulator = hookline.stats(**options)
    for tensor in tensors:
        accumulator.update(tensor)
    return accumulator.result()


def channels_first(tensors) -> np.ndarray:
    """Return the values as float64, one row a channel; the channel is axis 1."""
    return np.concatenate([t.double().numpy().swapaxes(0, 1).reshape(t.shape[1], -1) for t in tensors], axis=1)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 3), st.sampled_from([0, 1e4, -1e6]), st.sampled_from([1e-3, 1.0, 50.0]))
def test_statistics_are_those_of_all_values_in_float64(seed: int, batches: int, offset: float, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(2, 3, 4, 5, generator=generator) * scale + offset for _ in range(batches)]
    tensors[0][0, 1] = 0
    stats, values = gathered(*tensors), channels_first(tensors)
    largest = np.abs(values).max()
    for mine, theirs in [
        (stats.mean, values.mean(1)),
        (stats.std, values.std(1)),
        (stats.rms, np.sqrt((values**2).mean(1))),
    ]:
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-13 * largest + 1e-12, rtol=1e-9)
    np.testing.assert_array_equal(stats.min.numpy(), values.min(1))
    np.testing.assert_array_equal(stats.max.numpy(), values.max(1))
    assert stats.zeros.tolist() == (values == 0).sum(1).tolist()
    assert stats.count.tolist() == [values.shape[1]] * 3
    assert stats.nonfinite.tolist() == [0, 0, 0]
    total = stats.total
    np.testing.assert_allclose(total.mean.item(), values.mean(), atol=1e-13 * largest, rtol=1e-9)
    np.testing.assert_allclose(total.std.item(), values.std(), atol=1e-13 * largest + 1e-12, rtol=1e-9)
    assert total.count.item() == values.size


def test_a_small_spread_about_a_large_mean_is_not_lost() -> None:
    values = 1e4 + 1e-3 * torch.randn(64, 8, 16, 16, generator=torch.Generator().manual_seed(0))
    stats = gathered(values)
    np.testing.assert_allclose(stats.std.numpy(), channels_first([values]).std(1), rtol=1e-6)


def test_values_that_are_not_finite_are_counted_and_left_out() -> None:
    values = torch.tensor([[1.0, math.nan], [3.0, math.inf], [0.0, -math.inf]])
    stats = gathered(values)
    assert stats.nonfinite.tolist() == [0, 3]
    assert stats.finite.tolist() == [3, 0]
    assert (stats.mean[0].item(), stats.min[0].item(), stats.max[0].item(), stats.zeros[0].item()) == (4 / 3, 0, 3, 1)
    assert stats.mean[1].isnan()
    assert stats.count.tolist() == [3, 3]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=5), st.integers(0, 1000))
def test_merging_two_accumulators_is_one_pass_over_both(sizes, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(size, 3, generator=generator) for size in sizes]
    one, two = hookline.stats(), hookline.stats()
    one.update(tensors[0])
    for tensor in tensors[1:]:
        two.update(tensor)
    one.merge(two)
    merged, whole = one.result(), gathered(torch.cat(tensors))
    for name in ("count", "mean", "std", "rms", "min", "max", "zeros", "nonfinite"):
        torch.testing.assert_close(getattr(merged, name), getattr(whole, name), equal_nan=True)


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [((2, 3, 4, 4), 1, 3), ((2, 5, 7), -1, 7), ((2, 7), -1, 7), ((4,), None, None), ((), None, None)],
    ids=str,
)
def test_the_channel_axis_goes_by_the_number_of_axes(shape, axis, expected) -> None:
    stats = gathered(torch.ones(shape))
    assert stats.axis == axis
    assert stats.count.shape == (() if expected is None else (expected,))


def test_an_axis_may_be_named() -> None:
    assert gathered(torch.ones(2, 3, 4), axis=1).count.tolist() == [8, 8, 8]
    assert gathered(torch.ones(2, 3, 4), axis=-1).count.tolist() == [6] * 4
    assert gathered(torch.ones(2, 3, 4), axis=None).count.item() == 24
    with pytest.raises(CaptureError, match=r"no axis 5 in a tensor of shape \(2, 3\)"):
        gathered(torch.ones(2, 3), axis=5)
    with pytest.raises(HookTypeError, match="axis is an int, None or 'channel'"):
        hookline.stats(axis="channels")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.uint8])
def test_every_real_dtype_is_measured(dtype) -> None:
    values = torch.tensor([[0, 1], [1, 1]]).to(dtype)
    stats = gathered(values)
    assert stats.mean.tolist() == [0.5, 1]
    assert stats.zeros.tolist() == [1, 0]


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(CaptureError, match="complex"):
        gathered(torch.ones(2, dtype=torch.complex64))


def test_tensors_with_different_channels_are_kept_apart() -> None:
    accumulator = hookline.stats()
    accumulator.update(torch.ones(2, 3))
    accumulator.update(torch.ones(2, 5))
    assert [stats.count.numel() for stats in accumulator.results()] == [3, 5]
    with pytest.raises(CallsError, match="3 channels on axis -1 and 5 channels on axis -1"):
        accumulator.result()


def test_no_graph_is_kept_and_nothing_of_the_data() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    accumulator = hookline.stats()
    accumulator.update(x * 2)
    assert not accumulator.result().mean.requires_grad
    assert accumulator.fresh().axis == accumulator.axis


def test_statistics_print_and_convert() -> None:
    stats = gathered(torch.ones(2, 3))
    assert repr(stats).startswith("Stats(3 channels on axis -1, 6 values: mean 1")
    assert stats.to_dict()["mean"] == [1.0, 1.0, 1.0]
    assert stats.to("cpu").count.tolist() == [2, 2, 2]
    assert "3 channels" in repr(hookline.stats()) or "no values yet" in repr(hookline.stats())
