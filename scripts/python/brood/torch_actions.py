"""What a policy's outputs say about actions: distributions over an agent's action space.

    policy = policy_of(self.me.action, outputs, log_std, allowed)
    policy.sample(ctx), policy.best(), policy.log_prob(actions), policy.entropy()

Actions have the form of the log's rows, (..., U): one-hot for each head, or numbers. log_prob and
entropy are (...), sums over the heads or numbers.
"""
from __future__ import annotations

import math
from typing import Any, Sequence

import torch
import torch.nn.functional as F

from .players import Space

_LOWERED = -1e8  # scores of what cannot be chosen


def open_choices(allowed: Any, heads: Sequence[int]) -> Any:
    """(..., U) bool: a head in which nothing is allowed has all of its choices."""
    parts = [m | ~m.any(-1, keepdim=True) for m in allowed.split(list(heads), -1)]
    return torch.cat(parts, -1)


def forbid(scores: Any, allowed: Any, heads: Sequence[int]) -> Any:
    """Scores (..., U) with those of what cannot be chosen far below all others. allowed:
    (..., U), a tensor or an array, or None."""
    if allowed is None:
        return scores
    may = open_choices(torch.as_tensor(allowed, device=scores.device).bool(), heads)
    return scores.masked_fill(~may, _LOWERED)


def one_hot(scores: Any, heads: Sequence[int]) -> Any:
    """(..., U): the largest score of each head."""
    return torch.cat([F.one_hot(s.argmax(-1), n).to(s.dtype)
                      for s, n in zip(scores.split(list(heads), -1), heads)], -1)


def soft_choices(scores: Any, heads: Sequence[int], temperature: float) -> Any:
    """(..., U): one-hot, with the gradient of a softmax of each head: with Gumbel noise on the
    scores the straight-through estimator of Jang, Gu and Poole 2017, "Categorical
    reparameterization with Gumbel-softmax"."""
    soft = torch.cat([(s / temperature).softmax(-1) for s in scores.split(list(heads), -1)], -1)
    return one_hot(scores, heads) + (soft - soft.detach())


def choices_of(actions: Any, heads: Sequence[int]) -> Any:
    """(..., heads) whole: the entries of one-hot actions."""
    return torch.stack([a.argmax(-1) for a in actions.split(list(heads), -1)], -1)


class Choices:
    """One category for each head."""

    def __init__(self, scores: Any, heads: Sequence[int], allowed: Any = None):
        self.heads = list(heads)
        self.scores = forbid(scores, allowed, self.heads)
        self.log_probs = torch.cat([s.log_softmax(-1)
                                    for s in self.scores.split(self.heads, -1)], -1)

    def sample(self, ctx: Any) -> Any:
        noise = torch.from_numpy(ctx.gumbel(self.scores.shape[-1])).to(self.scores.device)
        return one_hot(self.scores + noise, self.heads)

    def best(self) -> Any:
        return one_hot(self.scores, self.heads)

    def log_prob(self, actions: Any) -> Any:
        return (self.log_probs * actions).sum(-1)

    def entropy(self) -> Any:
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def chosen(self, actions: Any) -> Any:
        """As `act` returns them."""
        return choices_of(actions, self.heads)


class Numbers:
    """A normal distribution of each number, cut at the bounds of the space: what falls outside
    becomes the bound, and the bound's probability is that of all that falls there. So log_prob
    is that of the action as it was executed. Fujita and Maeda 2018, "Clipped action policy
    gradient".

    means     (..., U) in half ranges from the middle; as they are if the space has no bounds
    log_std   (U,), of the same unit
    """

    def __init__(self, means: Any, log_std: Any, space: Space):
        self._low, self._high = space.low, space.high
        is_bounded = math.isfinite(space.low) and math.isfinite(space.high)
        half = (space.high - space.low) / 2 if is_bounded else 1.0
        middle = (space.high + space.low) / 2 if is_bounded else 0.0
        self.means, self.log_std = means * half + middle, log_std + math.log(half)

    def sample(self, ctx: Any) -> Any:
        noise = torch.from_numpy(ctx.normal(self.means.shape[-1])).to(self.means.device)
        return (self.means + self.log_std.exp() * noise).clamp(self._low, self._high)

    def best(self) -> Any:
        return self.means.clamp(self._low, self._high)

    def log_prob(self, actions: Any) -> Any:
        z = (actions - self.means) / self.log_std.exp()
        inside = -0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)
        below, above = torch.special.log_ndtr(z), torch.special.log_ndtr(-z)
        x = torch.where(actions >= self._high, above, inside)
        return torch.where(actions <= self._low, below, x).sum(-1)

    def entropy(self) -> Any:
        """That of the distributions before they are cut."""
        each = self.log_std + 0.5 * math.log(2 * math.pi * math.e)
        return each.sum() + 0 * self.means[..., 0]

    def chosen(self, actions: Any) -> Any:
        return actions


def policy_of(space: Space, outputs: Any, log_std: Any, allowed: Any = None) -> Any:
    """Choices or Numbers. log_std: of numbers, (U,)."""
    if space.kind == "discrete":
        return Choices(outputs, space.heads, allowed)
    return Numbers(outputs, log_std, space)
