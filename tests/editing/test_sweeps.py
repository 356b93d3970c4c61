"""Many variants in one batch, and causal tracing."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import hookline
from hookline import EditPlan, add, scale, zero
from hookline.errors import EditError, HookTypeError, MissingExtraError, NeverFiredError

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


EDITS = st.dictionaries(
    st.sampled_from(["0", "1", "2:input"]),
    st.one_of(
        st.integers(0, 5).map(lambda k: zero[:, k]), st.just(scale(2.0)), st.just(add(1.0)), st.just(lambda v: v.sin())
    ),
    max_size=2,
)


@settings(deadline=None, max_examples=40)
@given(st.lists(EDITS, min_size=1, max_size=6), st.sampled_from([None, 2, 4, 5]))
def test_a_sweep_equals_running_the_plans_one_by_one(plans, batch) -> None:
    model, x = mlp(), X.double()
    swept = hookline.sweep(model, x, plans, batch=batch)
    assert len(swept) == len(plans)
    for plan, output in zip(plans, swept, strict=True):
        with hookline.edit(model, EditPlan(plan)):
            assert torch.allclose(model(x), output, rtol=1e-10)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, *, scale=None, power=1):
        return {"out": self.fc(x) * scale**power, "text": "x"}


def test_inputs_and_outputs_have_any_structure_and_plans_rows_of_their_own() -> None:
    model, inputs = Named(), {"x": X, "scale": X + 2, "power": 2}
    plans = [EditPlan({"fc": zero}, rows=[1]), EditPlan()]
    first, second = hookline.sweep(model, inputs, plans)
    assert torch.allclose(second["out"], model(**inputs)["out"])
    assert torch.allclose(first["out"][0], second["out"][0])
    assert not first["out"][1].any()
    assert first["text"] == "x"
    by_tuple = hookline.sweep(mlp().float(), (X,), [{"0": zero}])
    assert by_tuple[0].shape == (2, 3)


def test_gradients_flow_through_a_sweep() -> None:
    model = mlp()
    sum(output.sum() for output in hookline.sweep(model, X.double(), [{"1": zero}, {}])).backward()
    assert model[0].weight.grad.abs().sum() > 0


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) - self.fc(x).mean(0)


REFUSED = {
    "batch-norm": (lambda: nn.Sequential(nn.BatchNorm1d(4)), X, {}, EditError, r"0 \(BatchNorm1d\) is in train mode"),
    "dropout": (lambda: nn.Sequential(nn.Dropout(0.5)), X, {}, EditError, "is random: call model.eval"),
    "rows that mix": (Mixing, X, {}, EditError, "the model mixes the rows"),
    "no batch": (Named, torch.tensor(1.0), {}, EditError, r"got batches of \[\]"),
    "two batches": (Named, {"x": X, "scale": X[:1]}, {}, EditError, r"got batches of \[1, 2\]"),
    "batch on another axis": (
        lambda: Transposed(),
        X,
        {},
        EditError,
        "expects the batch of . on axis 0",
    ),
    "batch= too small": (mlp, X, {"batch": 1}, EditError, "batch=1 is less than the 2 rows"),
}


class Transposed(nn.Module):
    def forward(self, x):
        return x.t()


@pytest.mark.parametrize(("make", "inputs", "options", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_sweep_cannot_do_is_refused_with_the_reason(make, inputs, options, error, message: str) -> None:
    model = make()
    plans = [{}, {"fc": zero} if hasattr(model, "fc") else {}]
    with pytest.raises(error, match=message):
        hookline.sweep(model, inputs, plans, **options)
    assert all(type(module).__module__ != "hookline" for module in model.modules())


def test_a_sweep_needs_plans_whose_places_run() -> None:
    with pytest.raises(HookTypeError, match="at least one plan"):
        hookline.sweep(mlp(), X, [])
    model = nn.ModuleDict({"fc": nn.Linear(4, 2), "idle": nn.Linear(4, 2)})
    model.forward = lambda x: model["fc"](x)
    with pytest.raises(NeverFiredError):
        hookline.sweep(model, X, [{"idle": zero}])


CLEAN, CORRUPTED = X.double(), X.double().flip(0) * 2


def outcome(output):
    return output[0, 0]


def test_the_effect_of_a_site_is_that_of_patching_it_by_hand() -> None:
    model = mlp()
    table = hookline.trace_effect(model, CLEAN, CORRUPTED, "*", outcome)
    assert table.clean == pytest.approx(outcome(model(CLEAN)).item())
    assert table.corrupted == pytest.approx(outcome(model(CORRUPTED)).item())
    assert [row.site for row in table] == ["0", "1", "2"]
    for row in table:
        assert row.value == pytest.approx(table.clean)  # a chain: each place carries all
        assert row.effect == pytest.approx(1)
    halves = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)}).double()
    halves.forward = lambda x: halves["a"](x) + halves["b"](x)
    table = hookline.trace_effect(halves, CLEAN, CORRUPTED, ["a", "b"], outcome)
    by_hand = (halves["a"](CLEAN) + halves["b"](CORRUPTED))[0, 0].item()
    assert table[0].value == pytest.approx(by_hand)
    assert sum(row.effect for row in table) == pytest.approx(1)
    assert "site  value" in str(table)


def test_an_interrupted_trace_goes_on_where_it_stopped(tmp_path) -> None:
    model, calls = mlp(), itertools.count()

    def interrupted(output):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return outcome(output)

    file = tmp_path / "effects.json"
    with pytest.raises(KeyboardInterrupt):
        hookline.trace_effect(model, CLEAN, CORRUPTED, "*", interrupted, resume=file)
    assert [row.site for row in hookline.TraceEffect.load(file)] == ["0", "1"]
    ran = []
    table = hookline.trace_effect(
        model, CLEAN, CORRUPTED, "*", lambda out: ran.append(1) or outcome(out), resume=file, progress=False
    )
    assert len(ran) == 3  # clean, corrupted, and the site that was left
    assert table == hookline.trace_effect(model, CLEAN, CORRUPTED, "*", outcome)
    assert type(model[0]) is nn.Linear


def test_a_file_of_another_run_is_not_taken_up(tmp_path) -> None:
    file = tmp_path / "effects.json"
    hookline.trace_effect(mlp(), CLEAN, CORRUPTED, "0", outcome, resume=file)
    with pytest.raises(EditError, match="of another model, input or metric"):
        hookline.trace_effect(mlp(), CLEAN, CORRUPTED * 2, "0", outcome, resume=file)
    file.write_text("{}")
    with pytest.raises(EditError, match="is no result of trace_effect"):
        hookline.trace_effect(mlp(), CLEAN, CORRUPTED, "0", outcome, resume=file)


def test_a_metric_gives_a_number() -> None:
    with pytest.raises(HookTypeError, match=r"returned a Tensor of shape \(2, 3\), which is no number"):
        hookline.trace_effect(mlp(), CLEAN, CORRUPTED, "0", lambda output: output)
    with pytest.raises(HookTypeError, match="metric is a function"):
        hookline.trace_effect(mlp(), CLEAN, CORRUPTED, "0", 5)


def test_a_trace_is_drawn_with_a_bar_for_each_site(monkeypatch) -> None:
    import sys

    table = hookline.trace_effect(mlp(), CLEAN, CORRUPTED, "*", outcome)
    figure = pytest.importorskip("matplotlib.figure")
    assert isinstance(table.plot(), figure.Figure)
    assert [label.get_text() for label in table.plot().axes[0].get_yticklabels()] == ["0", "1", "2"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"hookline\[look\]"):
        table.plot()
