"""One adapter for each package: it prepares a model, and returns the run that captures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import nn

Values = Mapping[str, torch.Tensor]
Run = Callable[[torch.Tensor], Values]


@dataclass(frozen=True)
class Adapter:
    """How one package captures the outputs of modules.

    Attributes:
        name: what the table calls it.
        package: the distribution that gives the version.
        prepare: takes a model and paths; returns what runs the model on an input and returns the value of each path.
    """

    name: str
    package: str
    prepare: Callable[[nn.Module, Sequence[str]], Run]


def hookline(model: nn.Module, paths: Sequence[str]) -> Run:
    from hookline import capture

    features = capture(model, *paths, keep="last")

    def run(x: torch.Tensor) -> Values:
        model(x)
        return features

    return run


def by_hand(keep: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[nn.Module, Sequence[str]], Run]:
    def prepare(model: nn.Module, paths: Sequence[str]) -> Run:
        kept: dict[str, torch.Tensor] = {}
        for path in paths:
            model.get_submodule(path).register_forward_hook(
                lambda _module, _args, output, path=path: kept.update({path: keep(output)})
            )

        def run(x: torch.Tensor) -> Values:
            model(x)
            return kept

        return run

    return prepare


def nnsight(model: nn.Module, paths: Sequence[str]) -> Run:
    from nnsight import NNsight, save

    wrapped = NNsight(model)

    def run(x: torch.Tensor) -> Values:
        with wrapped.trace(x):
            values = save([wrapped.get(path).output for path in paths])
        return dict(zip(paths, values, strict=True))

    return run


def captum(model: nn.Module, paths: Sequence[str]) -> Run:
    from captum.attr import LayerActivation

    layers = LayerActivation(model, [model.get_submodule(path) for path in paths])
    return lambda x: dict(zip(paths, layers.attribute(x), strict=True))


def surgeon(model: nn.Module, paths: Sequence[str]) -> Run:
    from surgeon_pytorch import Inspect

    wrapped = Inspect(model, layer=list(paths))
    return lambda x: dict(zip(paths, wrapped(x)[1], strict=True))


def torchextractor(model: nn.Module, paths: Sequence[str]) -> Run:
    from torchextractor import Extractor

    wrapped = Extractor(model, list(paths))
    return lambda x: wrapped(x)[1]


def layer_getter(model: nn.Module, paths: Sequence[str]) -> Run:
    from torch_intermediate_layer_getter import IntermediateLayerGetter

    wrapped = IntermediateLayerGetter(model, return_layers={path: path for path in paths})
    return lambda x: wrapped(x)[0]


def torchlens(model: nn.Module, paths: Sequence[str]) -> Run:
    from torchlens import extract

    return lambda x: extract(model, x, list(paths))


def tdhook(model: nn.Module, paths: Sequence[str]) -> Run:
    from tdhook.latent.activation_caching import ActivationCaching
    from tensordict import TensorDict

    pattern = "^(" + "|".join(map(re.escape, paths)) + ")$"
    wrapped = ActivationCaching(pattern).prepare(model).__enter__()
    return lambda x: wrapped(TensorDict({"input": x}, batch_size=[]))["cache"]


def pyvene(model: nn.Module, paths: Sequence[str]) -> Run:
    from pyvene import CollectIntervention, IntervenableModel

    model.config = SimpleNamespace(to_dict=dict)  # it reads the config that a transformers model has
    sites = [{"component": f"{path}.output", "intervention": CollectIntervention()} for path in paths]
    wrapped = IntervenableModel(sites, model=model)
    return lambda x: dict(zip(paths, wrapped(base={"x": x})[0][1], strict=True))


ADAPTERS = (
    Adapter("hookline", "hookline", hookline),
    Adapter("PyTorch hooks, reference", "torch", by_hand(lambda value: value)),
    Adapter("PyTorch hooks, clone", "torch", by_hand(torch.clone)),
    Adapter("nnsight", "nnsight", nnsight),
    Adapter("torchlens", "torchlens", torchlens),
    Adapter("captum", "captum", captum),
    Adapter("pyvene", "pyvene", pyvene),
    Adapter("tdhook", "tdhook", tdhook),
    Adapter("surgeon-pytorch", "surgeon-pytorch", surgeon),
    Adapter("torchextractor", "torchextractor", torchextractor),
    Adapter("torch-intermediate-layer-getter", "torch-intermediate-layer-getter", layer_getter),
)
