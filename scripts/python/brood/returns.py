"""Returns, advantages, and sequences in which episodes end; for NumPy arrays and torch tensors.

Time is the last axis of rewards, values and masks: (..., T), as batch["reward"] has it for
rows of window(), episodes() and transitions(n). Masks are of any type, 1 or true where

    terminated  nothing follows: the value of what follows does not count
    truncated   a limit cut the episode: the value of `next_obs` counts, later rows do not

so that `next_value` is always that of the row's own next_obs, (..., T), and an episode may begin
anywhere inside a row. What has the end of its array behind it is treated as truncated there.
Answers are new arrays of the type of `reward`; gradients flow through torch's.
"""
from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np


def _numbers(mask: Any, like: Any) -> Any:
    """A mask as 0 and 1 of the type of `like`."""
    if hasattr(like, "detach"):
        return mask.to(like.dtype)
    return np.asarray(mask, like.dtype)


def _stack(parts: list[Any], axis: int) -> Any:
    if hasattr(parts[0], "detach"):
        return sys.modules["torch"].stack(parts, axis)
    return np.stack(parts, axis)


def _backwards(x: Any, keep: Any) -> Any:
    """y[t] = x[t] + keep[t] y[t + 1]."""
    found, last = [], x[..., -1] * 0
    for t in reversed(range(x.shape[-1])):
        last = x[..., t] + keep[..., t] * last
        found.append(last)
    return _stack(found[::-1], -1)


def gae(reward: Any, value: Any, next_value: Any, terminated: Any, truncated: Any,
        discount: float, lam: float) -> Any:
    """Generalised advantages: the sum of (discount lam)^k times the error of the value k steps
    later. Returns are these plus `value`. Schulman et al. 2016, "High-dimensional continuous
    control using generalized advantage estimation"."""
    goes_on = 1 - _numbers(terminated, reward)
    error = reward + discount * next_value * goes_on - value
    return _backwards(error, discount * lam * goes_on * (1 - _numbers(truncated, reward)))


def lambda_returns(reward: Any, next_value: Any, terminated: Any, truncated: Any,
                   discount: float, lam: float) -> Any:
    """y[t] = reward[t] + discount ((1 - lam) next_value[t] + lam y[t + 1]): 0 the targets of one
    step, 1 whole returns. Without V(obs) they are those of gae plus value."""
    later = lam * (1 - _numbers(truncated, reward))
    later[..., -1] = 0
    goes_on = discount * (1 - _numbers(terminated, reward))
    return _backwards(reward + goes_on * (1 - later) * next_value, goes_on * later)


def n_step(reward: Any, next_value: Any, terminated: Any, truncated: Any, discount: float,
           n: int) -> Any:
    """For each step the rewards of n steps, fewer where the episode or the array ends before,
    and the value of what follows the last of them."""
    goes_on = discount * (1 - _numbers(terminated, reward))
    cut = _numbers(truncated, reward) * 1
    cut[..., -1] = 1
    one = found = reward + goes_on * next_value
    for _ in range(n - 1):
        after = _stack([*(found[..., t + 1] for t in range(found.shape[-1] - 1)),
                        found[..., -1]], -1)
        found = cut * one + (1 - cut) * (reward + goes_on * after)
    return found


def ahead(reward: Any, terminated: Any, truncated: Any, discount: float) -> tuple[Any, Any, Any]:
    """For rows of transitions(n), whose value is wanted after their last step alone:
    (total, factor, last), each (...). The target of the first step is

        total + factor * (value of next_obs in step `last`)

    last      the step, whole, in which the episode or the row ends
    factor    discount^(last + 1), 0 if it terminated there
    """
    term, end = _numbers(terminated, reward), _numbers(truncated, reward)
    total = reward[..., 0] * 0
    factor = last = total
    going = total + 1
    for t in range(reward.shape[-1]):
        total = total + going * discount**t * reward[..., t]
        factor = factor + going * (discount**(t + 1) * (1 - term[..., t]) - factor)
        last = last + going * (t - last)
        going = going * (1 - term[..., t]) * (1 - end[..., t])
    return total, factor, last.long() if hasattr(last, "detach") else last.astype(np.int64)


def at_step(x: Any, step: Any) -> Any:
    """x (B, T, ...) at a step (B,) of each row: (B, ...)."""
    rows = sys.modules["torch"].arange(len(x)) if hasattr(x, "detach") else np.arange(len(x))
    return x[rows, step]


def unroll(cell: Callable[[Any, Any], Any], x: Any, carry: Any, first: Any) -> Any:
    """What a memory holds after each step of a sequence: (B, T, H).

    cell      (input (B, X), carry (B, H)) -> the next carry, such as torch.nn.GRUCell
    x         (B, T, X)
    carry     (B, H), as before step 0, in an episode that may have begun earlier
    first     (B, T): an episode begins with this step, so that the memory before it is 0
    """
    goes_on = 1 - _numbers(first, carry)
    found = []
    for t in range(x.shape[1]):
        carry = cell(x[:, t], carry * goes_on[:, t, None])
        found.append(carry)
    return _stack(found, 1)
