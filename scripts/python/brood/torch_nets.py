"""Networks of torch as a section of the configuration describes them, and their steps."""
from __future__ import annotations

from typing import Any, Iterable, Mapping

import torch
from torch import nn

from .errors import Error

_ACTIVATIONS: dict[str, Any] = {
    "relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "tanh": nn.Tanh, "elu": nn.ELU,
    "sigmoid": nn.Sigmoid, "linear": nn.Identity}


def _begin(layer: Any, how: str, gain: float, bound: float = 0.0) -> Any:
    """Initial weights; bound: of the last layer, 0 if it is like all others."""
    if how == "orthogonal":
        nn.init.orthogonal_(layer.weight, bound or gain)
    elif bound:
        nn.init.uniform_(layer.weight, -bound, bound)
    elif how == "he":
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def hidden(inputs: int, section: Mapping[str, Any]) -> tuple[Any, int]:
    """The hidden layers of "actor" or "critic" in the configuration (hidden, activation,
    layer_norm, init), and how many numbers they give. Error("config") for convolutions."""
    if section.get("conv"):
        raise Error("convolutions are not made here: a method of your own can make the network",
                    code="config", key="conv")
    norm = bool(section.get("layer_norm"))
    layers: list[Any] = [nn.LayerNorm(inputs)] if norm else []
    for units in section["hidden"]:
        layers.append(_begin(nn.Linear(inputs, units), section.get("init", "xavier"), 2.0**0.5))
        layers.append(_ACTIVATIONS[section.get("activation", "relu")]())
        if norm:
            layers.append(nn.LayerNorm(units))
        inputs = units
    return nn.Sequential(*layers), inputs


def last(inputs: int, outputs: int, section: Mapping[str, Any]) -> Any:
    """The linear layer behind them, with `output_init`."""
    return _begin(nn.Linear(inputs, outputs), section.get("init", "xavier"), 1.0,
                  float(section.get("output_init") or 0.0))


def network(inputs: int, outputs: int, section: Mapping[str, Any]) -> Any:
    """Both: (..., inputs) -> (..., outputs)."""
    layers, width = hidden(inputs, section)
    return nn.Sequential(*layers, last(width, outputs, section))


def step(optimizer: Any, parameters: Iterable[Any], clip_norm: float) -> Any:
    """A step of the optimiser with the gradients as they are, their norm bounded (0: not).
    Returns the norm. Gradients are zeroed afterwards."""
    norm = nn.utils.clip_grad_norm_(parameters, clip_norm or float("inf"))
    optimizer.step()
    optimizer.zero_grad()
    return norm


def follow(target: Any, net: Any, rate: float) -> None:
    """Moves the weights of a target network towards those of the network; 1: copies them."""
    with torch.no_grad():
        for t, p in zip(target.parameters(), net.parameters()):
            t.lerp_(p, rate)


def mean_of(x: Any, mask: Any) -> Any:
    """The mean of x where the mask is not 0, weighted by it."""
    return (x * mask).sum() / mask.sum().clamp(min=1)
