"""Proximal policy optimisation to subclass: alone or with a central critic, with a memory or
without, discrete or continuous actions, masks.

Settings are those of brood's own ippo and mappo. Where a limit cuts an episode, what would follow
is worth the value of next_obs, never that of the next episode's first observation.

Source    Schulman et al. 2017, "Proximal policy optimization algorithms"; Yu et al. 2022, "The
          surprising effectiveness of PPO in cooperative multi-agent games".
"""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import torch
from torch import nn

from . import returns
from .settings import setting
from .torch_actor_critic import ActorCritic, Part
from .torch_nets import mean_of, step


class ValueNorm:
    """Running mean and deviation of what a critic learns, so that it sees numbers near 1.
    Statistics of all windows so far, later ones a little more: van Hasselt et al. 2016,
    "Learning values across many orders of magnitude". x: (3,) float64, in the block."""

    def __init__(self, x: Any):
        self._x = x

    def scale(self) -> tuple[float, float]:
        """(mean, deviation)."""
        first, second, weight = self._x
        if weight == 0:
            return 0.0, 1.0
        mean = first / weight
        return float(mean), float(max(second / weight - mean * mean, 0.01) ** 0.5)

    def add(self, mean: float, mean_square: float) -> None:
        self._x[...] = 0.99999 * self._x + 1e-5 * np.array([mean, mean_square, 1.0])


class PPO(ActorCritic):
    """Proximal policy optimisation, each agent alone.

    Class attributes (carry, critic_sees), networks and acting: ActorCritic. Methods to replace:
    what is learnt (rewards, advantages), and what is minimised (policy_loss, value_loss, bonus).
    (...) is the shape of a minibatch: (N,) rows, or with a memory (E, T) sequences.
    """
    scalars = {"entropy": "mean entropy of the policy"}
    gae = setting(0.95, "lambda of generalised advantage estimation", min=0, max=1, live=True)
    clip_ratio = setting(0.2, "how far a choice's new probability may differ from its old one",
                         min=0, max=1, live=True)
    entropy = setting(0.01, "weight of the policy's entropy", min=0, live=True, schedule=True)
    epochs = setting(10, "passes over each window of rows", min=1)
    minibatches = setting(1, "steps of the optimisers in a pass", min=1)
    value_norm = setting(True, "the critic's targets are normalised")
    advantage_norm = setting(True, "advantages of a window get mean 0 and deviation 1")
    huber = setting(10.0, "errors of the critic beyond this count linearly", min=0)

    def build(self) -> None:
        super().build()
        self.norm = ValueNorm(self.variable("value_norm", np.zeros(3)))

    def learn(self, batch: Any, ctx: Any) -> Any:
        """A part, the window or a minibatch of it, has obs, seen (by the critic), action,
        log_prob (when it acted), value (before the update), advantage, goal, alive (0 where the
        agent is not there); allowed if there are masks; with a memory carry (E, H), first."""
        whole = self.prepared(batch, ctx)
        found: Part = {}
        for _ in range(self.epochs):
            for part in self.parts(whole):
                found = self.losses(part, ctx)
                (found["actor_loss"] + found["critic_loss"]).backward()
                limit = ctx.value("clip_norm")
                found["actor_grad_norm"] = step(self.actor_opt, self.actor_weights, limit)
                found["critic_grad_norm"] = step(self.critic_opt, self.critic_weights, limit)
            ctx.progress()
        return found

    # ---- what is learnt ----

    def prepared(self, batch: Any, ctx: Any) -> Part:
        """The window's part, before anything is changed."""
        part = self.observed(batch)
        alive = part["alive"]
        with torch.no_grad():
            mean, deviation = self.norm.scale()
            part["value"], after = self.values(part, batch)
            value = part["value"] * deviation + mean
            gain = self.advantages(self.rewards(batch, ctx), value, after * deviation + mean,
                                   batch, ctx)
            goal = gain + value
            if self.value_norm and alive.any():
                self.norm.add(float(mean_of(goal, alive)), float(mean_of(goal**2, alive)))
                mean, deviation = self.norm.scale()
            part["goal"], part["advantage"] = (goal - mean) / deviation, gain
            if self.advantage_norm:
                gain = gain - mean_of(gain, alive)
                part["advantage"] = gain / (mean_of(gain**2, alive).sqrt() + 1e-5)
        return part

    def rewards(self, batch: Any, ctx: Any) -> Any:
        """(E, T)."""
        return batch.t("reward")

    def advantages(self, reward: Any, value: Any, after: Any, batch: Any, ctx: Any) -> Any:
        """(E, T), of rewards, values, and values of what follows each step. The critic's goals
        are these plus the values."""
        return returns.gae(reward, value, after, batch.t("terminated"), batch.t("truncated"),
                           ctx.value("discount"), ctx.value("gae"))

    def parts(self, whole: Part) -> Iterator[Part]:
        """The minibatches of a pass: of rows, or with a memory of copies."""
        if not self.carry:
            whole = {k: x.flatten(0, 1) for k, x in whole.items()}
        for rows in torch.randperm(len(whole["obs"])).chunk(self.minibatches):
            yield {k: x[rows] for k, x in whole.items()}

    # ---- what is minimised ----

    def losses(self, part: Part, ctx: Any) -> Part:
        """Scalars: actor_loss and critic_loss, whose sum is minimised, and others to report."""
        x, alive = self.features(part), part["alive"]
        policy, value = self.policy(x, part.get("allowed")), self.value(x, part["seen"])
        loss = self.policy_loss(policy.log_prob(part["action"]), part, ctx) - \
            self.bonus(policy, part, ctx)
        return {"actor_loss": mean_of(loss, alive),
                "critic_loss": mean_of(self.value_loss(value, part, ctx), alive),
                "entropy": mean_of(policy.entropy(), alive)}

    def policy_loss(self, log_prob: Any, part: Part, ctx: Any) -> Any:
        """(...): the clipped one."""
        ratio, clip = (log_prob - part["log_prob"]).exp(), ctx.value("clip_ratio")
        return -torch.minimum(ratio * part["advantage"],
                              ratio.clamp(1 - clip, 1 + clip) * part["advantage"])

    def bonus(self, policy: Any, part: Part, ctx: Any) -> Any:
        """(...): what the policy gains besides advantages; its entropy."""
        return ctx.value("entropy") * policy.entropy()

    def value_loss(self, value: Any, part: Part, ctx: Any) -> Any:
        """(...): the larger one of those with and without a clipped change of the value."""
        clip = ctx.value("clip_ratio")
        near = part["value"] + (value - part["value"]).clamp(-clip, clip)
        return torch.maximum(self.error_loss(value - part["goal"]),
                             self.error_loss(near - part["goal"]))

    def error_loss(self, error: Any) -> Any:
        """Half the square, up to `huber`."""
        if self.huber == 0:
            return 0.5 * error**2
        return nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none",
                                        delta=self.huber)


class MAPPO(PPO):
    """Proximal policy optimisation with critics that see all observations."""
    critic_sees = "*/obs"
