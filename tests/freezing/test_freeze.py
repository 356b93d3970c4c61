"""Every trap of freezing that FREEZING.md lists, by its id."""

import copy
import functools
import re

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import hookline
from hookline import AddressError, FreezeError, HookRefusedError, HookTypeError, NoMatchError, NotFrozenError

OPTIMIZERS = {
    "SGD momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": functools.partial(torch.optim.Adam, lr=0.1),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.1),
    "AdamW fused": functools.partial(torch.optim.AdamW, lr=0.1, fused=True),
}


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def train(model, optimizer, x, steps=1):
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_twenty_training_steps_leave_the_frozen_part_bit_for_bit_and_move_the_rest(net, images, optimizer) -> None:
    """F1, F2, F4, F5: batch-norm statistics, modes, stale gradients and momentum all try to move it."""
    optimizer = optimizer(net.parameters())
    train(net, optimizer, images, steps=3)  # fills the optimizer's state, and leaves gradients behind
    frozen = hookline.freeze(net, "stem", "layer1")
    body, rest = (state_of(net.stem), state_of(net.layer1)), (state_of(net.layer2), state_of(net.head))
    optimizer.step()  # with the stale gradients, had they been left
    train(net, optimizer, images, steps=20)
    assert same(body[0], state_of(net.stem)) and same(body[1], state_of(net.layer1))
    assert not same(rest[0], state_of(net.layer2)) and not same(rest[1], state_of(net.head))
    frozen.check(optimizer)
    frozen.remove()
    train(net, optimizer, images)
    assert not same(body[0], state_of(net.stem))


@pytest.mark.parametrize(
    "make", [nn.BatchNorm2d, functools.partial(nn.InstanceNorm2d, affine=True, track_running_stats=True)]
)
@pytest.mark.parametrize("level", ["state", "function"])
def test_statistics_of_a_frozen_norm_stand_still(make, level) -> None:
    """F1."""
    norm = make(4)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), norm)
    hookline.freeze(model, "1", level=level)
    before = state_of(norm)
    model.train()
    model(torch.randn(4, 3, 8, 8))
    assert same(before, state_of(norm))
    assert not norm.weight.requires_grad


def test_at_the_level_of_parameters_statistics_go_on(net, images) -> None:
    frozen = hookline.freeze(net, "stem", level="params")
    net.train()(images)
    assert net.stem[1].num_batches_tracked == 1
    assert not any(each.requires_grad for each in net.stem.parameters())
    frozen.check()


def test_at_the_level_of_state_a_norm_goes_on_with_the_statistics_of_the_batch(net, images) -> None:
    other = copy.deepcopy(net).train()
    hookline.freeze(net, "stem", level="state")
    assert torch.equal(net.train().stem(images), other.stem(images))


def test_at_the_level_of_function_the_output_in_training_is_that_in_inference(net, images) -> None:
    """F1, F3: "function" is what is meant when nothing is said."""
    expected = net.eval().layer1(net.stem(images))
    hookline.freeze(net, "stem", "layer1")
    net.train()
    assert torch.equal(net.layer1(net.stem(images)), expected)


@pytest.mark.parametrize(
    "call", [lambda net: net.train(), lambda net: net.layer1.train(), lambda net: net.layer1[1].train(True)]
)
def test_train_at_any_depth_leaves_the_frozen_part_in_inference_mode(net, call) -> None:
    """F2."""
    hookline.freeze(net, "layer1")
    call(net)
    assert [module.training for module in net.layer1.modules()] == [False] * 5


def test_the_rest_follows_the_mode(net) -> None:
    hookline.freeze(net, "layer1")
    assert net.train().layer2[2].training and net.training
    assert not net.eval().layer2[2].training
    assert net.train().layer2.training


def test_remove_gives_each_module_the_mode_that_it_would_have_now(net) -> None:
    """F2."""
    net.layer1[1].eval()
    frozen = hookline.freeze(net, "stem", "layer1")
    net.stem.eval()
    net.layer1[2].train(False)
    frozen.remove()
    assert [module.training for module in net.stem.modules()] == [False] * 4
    assert [each.training for each in net.layer1] == [True, False, False, True]
    frozen = hookline.freeze(net, ".")
    net.train()
    frozen.remove()
    assert all(module.training for module in net.modules())


def test_a_train_method_of_the_users_own_is_obeyed_when_the_freeze_ends() -> None:
    class KeepsNorm(nn.Sequential):
        def train(self, mode=True):
            super().train(mode)
            self[1].eval()
            return self

    model = nn.Sequential(KeepsNorm(nn.Linear(2, 2), nn.BatchNorm1d(2)), nn.Linear(2, 2))
    frozen = hookline.freeze(model, "0")
    assert model.train() is model
    frozen.remove()
    assert (model[0].training, model[0][0].training, model[0][1].training) == (True, True, False)


def test_dropout_in_the_frozen_part_is_off_unless_it_is_asked_for(net, images) -> None:
    """F3."""
    frozen = hookline.freeze(net, "layer1")
    net.train()
    x = torch.randn(4, 4, 7, 7)
    assert torch.equal(net.layer1(x), net.layer1(x))
    frozen.remove()
    frozen = hookline.freeze(net, "layer1", dropout=True)
    net.train()
    assert net.layer1[2].training and not net.layer1[1].training
    assert not torch.equal(net.layer1(x), net.layer1(x))
    assert "layer1.2: dropout follows" in str(frozen.report())


def test_freezing_clears_the_gradients_at_once(net, images) -> None:
    """F4."""
    net(images).sum().backward()
    hookline.freeze(net, "stem")
    assert all(each.grad is None for each in net.stem.parameters())
    assert all(each.grad is not None for each in net.head.parameters())


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_freezing_between_backward_and_step_moves_nothing(net, images, optimizer) -> None:
    """F13, for an optimizer that nobody told us about."""
    optimizer = optimizer(net.parameters())
    net(images).sum().backward()
    before = state_of(net.stem)
    hookline.freeze(net, "stem")
    optimizer.step()
    assert same(before, state_of(net.stem))


def test_freezing_between_forward_and_backward_moves_nothing(net, images) -> None:
    """F13."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = net(images).sum()
    frozen = hookline.freeze(net, "stem")
    loss.backward()
    optimizer.step()
    frozen.check(optimizer)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.body = nn.Linear(4, 4)
        self.lm_head = nn.Linear(4, 5, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, x):
        return self.lm_head(self.body(self.embed(x)))


def test_one_half_of_a_tied_pair_is_refused_naming_both(net) -> None:
    """F7."""
    model = Tied()
    with pytest.raises(FreezeError, match=r"'embed.weight' and 'lm_head.weight' are one tensor"):
        hookline.freeze(model, "embed")
    assert model.embed.weight.requires_grad and model.embed.training
    frozen = hookline.freeze(model, "embed", "lm_head")
    with pytest.raises(FreezeError, match=r"'embed.weight' and 'lm_head.weight' are one tensor"):
        frozen.thaw("lm_head")
    assert not model.embed.weight.requires_grad
    frozen.remove()
    assert model.lm_head.weight.requires_grad


def test_parameters_that_share_memory_without_being_one_object_are_tied_too() -> None:
    """F7."""
    model = Tied()
    model.lm_head.weight = nn.Parameter(model.embed.weight.data)
    with pytest.raises(FreezeError, match="are one tensor"):
        hookline.freeze(model, "embed")


def test_a_name_that_fits_nothing_is_an_error_that_names_the_nearest(vit) -> None:
    """F8."""
    with pytest.raises(NoMatchError, match="'cls_token'"):
        hookline.freeze(vit, "patch", "cls_tokn")
    assert vit.patch.training and vit.patch.weight.requires_grad


def test_bare_parameters_are_selected_by_name_and_counted(vit) -> None:
    """F8."""
    frozen = hookline.freeze(vit, "cls_token", vit.pos_embed, "blocks.*.linear1.bias")
    assert frozen.paths == ("cls_token", "pos_embed", *(f"blocks.{i}.linear1.bias" for i in range(3)))
    assert frozen.report().frozen == 8 + 40 + 3 * 16
    assert [name for name, each in vit.named_parameters() if not each.requires_grad] == list(frozen.paths)
    frozen.remove()
    frozen = hookline.freeze(vit, "*")  # what is owned directly is not missed
    assert not any(each.requires_grad for each in vit.parameters())
    with pytest.raises(NoMatchError, match="not one of the model"):
        hookline.freeze(vit, nn.Parameter(torch.zeros(2)))


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("layer[12].0", ["layer1.0.weight", "layer1.0.bias", "layer2.0.weight", "layer2.0.bias"]),
        (nn.Linear, ["head.weight", "head.bias"]),
        (re.compile(r".*\.1\.bias"), ["stem.1.bias", "layer1.1.bias", "layer2.1.bias"]),
        (re.compile(r"head"), ["head.weight", "head.bias"]),
        (lambda path, module: path == "stem.0", ["stem.0.weight", "stem.0.bias"]),
        (["head", ["stem.0"]], ["stem.0.weight", "stem.0.bias", "head.weight", "head.bias"]),
    ],
)
def test_all_forms_of_where_are_taken(net, where, paths) -> None:
    assert list(hookline.freeze(net, where).paths) == paths


def test_a_frozen_middle_passes_gradients_on(net, images) -> None:
    """F9."""
    hookline.freeze(net, "layer1")
    net.train()(images).sum().backward()
    assert net.stem[0].weight.grad.abs().sum() > 0
    assert net.layer1[0].weight.grad is None


def test_a_true_prefix_runs_without_a_graph(net, images) -> None:
    """F9."""
    hookline.freeze(net, "stem", "layer1")
    assert not net.train().layer1(net.stem(images)).requires_grad


def test_overlapping_freezes_end_in_any_order(net) -> None:
    """F11."""
    first = hookline.freeze(net, "stem", "layer1")
    second = hookline.freeze(net, "layer1", "layer2")
    third = hookline.freeze(net, "layer1")
    first.remove()
    assert net.stem[0].weight.requires_grad and net.stem.training
    assert not net.layer1[0].weight.requires_grad and not net.layer1.training
    second.thaw("layer1")
    assert not net.layer1[0].weight.requires_grad
    third.remove()
    third.remove()
    assert net.layer1[0].weight.requires_grad and net.layer1.training
    assert not net.layer2[0].weight.requires_grad
    second.remove()
    assert all(each.requires_grad for each in net.parameters()) and all(each.training for each in net.modules())


def test_a_parameter_that_did_not_train_before_does_not_train_after(net) -> None:
    net.stem[0].weight.requires_grad_(False)
    hookline.freeze(net, "stem").remove()
    assert not net.stem[0].weight.requires_grad and net.stem[0].bias.requires_grad


def test_a_flag_that_is_switched_back_is_found(net) -> None:
    """F12."""
    frozen = hookline.freeze(net, "stem")
    net.stem[0].weight.requires_grad_()
    with pytest.raises(NotFrozenError, match=r"stem.0.weight: its requires_grad was switched back"):
        frozen.check()


def test_a_lazy_module_is_refused_before_anything_has_changed() -> None:
    """F14."""
    model = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(2))
    with pytest.raises(FreezeError, match=r"'1.weight' is of a lazy module .* run the model once"):
        hookline.freeze(model, ".")
    assert model[0].weight.requires_grad and model[0].training and type(model[0]) is nn.Linear


def test_integer_parameters_are_skipped_and_said() -> None:
    """F14."""
    model = nn.Linear(2, 2)
    model.codes = nn.Parameter(torch.arange(4), requires_grad=False)
    frozen = hookline.freeze(model, ".")
    assert frozen.report().skipped == ("codes: torch.int64 has no gradient to switch off; it is watched",)
    model.codes.data[0] = 7
    with pytest.raises(NotFrozenError, match="codes: differs by 7"):
        frozen.check()
    frozen.remove()
    assert not model.codes.requires_grad


def test_torchscript_is_refused_before_anything_has_changed(net) -> None:
    """F14."""
    net.layer2 = torch.jit.script(net.layer2)
    with pytest.raises(HookRefusedError, match="TorchScript"):
        hookline.freeze(net, "stem", "layer2")
    assert net.stem[0].weight.requires_grad and net.stem.training and type(net.stem[0]) is nn.Conv2d


@pytest.mark.parametrize(
    ("wrap", "originals"),
    [
        (parametrizations.weight_norm, {"parametrizations.weight.original0", "parametrizations.weight.original1"}),
        (parametrizations.spectral_norm, {"parametrizations.weight.original"}),
    ],
)
def test_of_a_parametrized_weight_the_originals_are_frozen(wrap, originals) -> None:
    """F15."""
    model = nn.Sequential(wrap(nn.Linear(3, 3)), nn.Linear(3, 1))
    frozen = hookline.freeze(model, "0.weight")
    assert {path.removeprefix("0.") for path in frozen.paths} == originals
    assert not model[0].weight.requires_grad
    frozen.remove()
    frozen = hookline.freeze(model, "0")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, torch.randn(2, 3), steps=3)
    frozen.check(optimizer)
    assert parametrize.is_parametrized(model[0])


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_of_an_old_style_weight_norm_the_originals_are_frozen() -> None:
    """F15."""
    model = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 3)), nn.Linear(3, 1))
    assert set(hookline.freeze(model, "0.weight").paths) == {"0.weight_g", "0.weight_v"}


def test_names_and_values_of_the_state_dict_are_unchanged(net) -> None:
    """F18."""
    before = state_of(net)
    with hookline.freeze(net, "stem"):
        assert list(net.state_dict()) == list(before)
        assert same(before, state_of(net))


def test_after_the_block_the_model_is_what_it_was(net) -> None:
    before = {path: (type(module), set(vars(module))) for path, module in net.named_modules()}
    parameters = {name: id(each) for name, each in net.named_parameters()}
    with pytest.raises(KeyError), hookline.freeze(net, "stem", "layer1", level="function"):
        assert type(net.stem[0]) is not nn.Conv2d
        raise KeyError
    assert {path: (type(module), set(vars(module))) for path, module in net.named_modules()} == before
    assert {name: id(each) for name, each in net.named_parameters()} == parameters


def test_a_frozen_model_can_go_away(net) -> None:
    import gc
    import weakref

    gone = weakref.ref(net.layer1[0])
    hookline.freeze(net, "layer1")
    net.layer1 = nn.Identity()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"level": "weights"}, HookTypeError, "level is one of"),
        ({"dropout": 1}, HookTypeError, "dropout is True or False"),
        ({"until": "layer2"}, FreezeError, "until='layer2' needs to know the order"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(net, options, error, message) -> None:
    with pytest.raises(error, match=message):
        hookline.freeze(net, "stem", **options)
    assert net.stem[0].weight.requires_grad


@pytest.mark.parametrize("where", [(), ([],)])
def test_freezing_nothing_is_refused(net, where) -> None:
    with pytest.raises(AddressError, match=r"nothing to freeze|at least one address"):
        hookline.freeze(net, *where)


def test_an_address_of_a_value_is_refused(net) -> None:
    with pytest.raises(AddressError, match="write 'stem'"):
        hookline.freeze(net, "stem:output")


def test_thawing_what_is_not_frozen_is_an_error(net) -> None:
    frozen = hookline.freeze(net, "stem", "layer1")
    with pytest.raises(NoMatchError, match="nothing that 'layer2' names is frozen here"):
        frozen.thaw("stem", "layer2")
    assert not net.stem[0].weight.requires_grad
    frozen.thaw("stem")
    assert net.stem[0].weight.requires_grad and not net.layer1[0].weight.requires_grad
    frozen.thaw()
    assert net.layer1[0].weight.requires_grad
