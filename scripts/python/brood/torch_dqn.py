"""Deep Q-learning to subclass: double, with a target network, duelling, with several steps,
prioritised; discrete actions of one or more heads, masks.

Source    Mnih et al. 2015, "Human-level control through deep reinforcement learning"; van Hasselt
          et al. 2016, "Deep reinforcement learning with double Q-learning"; Wang et al. 2016,
          "Dueling network architectures for deep reinforcement learning".
"""
from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F

from . import returns
from .agent import Agent
from .errors import Error
from .settings import setting
from .stages import transitions
from .torch_actions import choices_of, forbid, one_hot
from .torch_nets import follow, mean_of, network, step


class DQN(Agent):
    """Double Q-learning with a target network, each agent alone.

    rows = brood.transitions(n) in a subclass makes targets of n steps. With experience.priority
    in the configuration, rows are drawn by their errors. The value of an action of several heads
    is the sum of its choices' values. Methods to replace: make_network, values, explores (acting),
    goals and loss (learning), update_target.
    """
    rows = transitions()
    reads = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "alive")
    live = ("discount", "polyak", "clip_norm", "optimizer.learning_rate")
    defaults = {"discount": 0.99, "clip_norm": 10, "optimizer.learning_rate": 0.001}

    epsilon = setting("1 to 0.05 over 60000", "share of random choices", min=0, max=1, live=True)
    double_q = setting(True, "targets: the network that learns chooses the next action")
    dueling = setting(False, "a value of the observation, and what each choice adds to it")
    target_every = setting(0, "updates between copies to the target network; 0: polyak after each",
                           min=0)
    huber = setting(1.0, "errors beyond this count linearly; 0: squares", min=0)

    # ---- networks ----

    def build(self) -> None:
        if self.me.action.kind != "discrete":
            raise Error(f"{type(self).__name__}: agent {self.name} has no discrete actions",
                        code="unsupported")
        self.q = self.make_network()
        self.target = copy.deepcopy(self.q)
        self.track(q=self.q, target=self.target)
        self.weights = list(self.q.parameters())
        self.opt = self.optimizer(self.weights)

    def make_network(self) -> Any:
        """obs -> the choices' values (U), of all heads; duelling: U + 1."""
        return network(self.me.obs, self.me.action.width + self.dueling, self.settings["critic"])

    def values(self, net: Any, obs: Any) -> Any:
        """(B, U) of the network or its target."""
        x = net(obs)
        if not self.dueling:
            return x
        gains = [a - a.mean(-1, keepdim=True)
                 for a in x[..., 1:].split(list(self.me.action.heads), -1)]
        return torch.cat(gains, -1) + x[..., :1] / len(gains)

    # ---- acting ----

    def act(self, obs: Any, ctx: Any) -> Any:
        heads = self.me.action.heads
        with torch.no_grad():
            values = self.values(self.q, self.t(obs))
            best = choices_of(forbid(values, ctx.allowed, heads), heads)
            if ctx.mode != "explore":
                return best
            noise = self.t(ctx.gumbel(self.me.action.width))
            other = choices_of(forbid(noise, ctx.allowed, heads), heads)
            return torch.where(self.t(self.explores(ctx)), other, best)

    def explores(self, ctx: Any) -> Any:
        """(E, heads) bool: which choices are random ones."""
        return ctx.uniform(len(self.me.action.heads)) < ctx.value("epsilon")

    # ---- learning ----

    def learn(self, batch: Any, ctx: Any) -> Any:
        start = self.steps(batch, "obs")[:, 0], self.steps(batch, "action")[:, 0]
        q = (self.values(self.q, start[0]) * start[1]).sum(-1)
        with torch.no_grad():
            error = self.goals(batch, ctx) - q
        loss = mean_of(self.loss(q, q.detach() + error),
                       self.t(batch.weights) * self.steps(batch, "alive")[:, 0])
        loss.backward()
        norm = step(self.opt, self.weights, ctx.value("clip_norm"))
        self.update_target(ctx)
        return {"critic_loss": loss, "q_mean": q.mean(), "critic_grad_norm": norm,
                "priorities": error.abs() + 1e-6}

    def steps(self, batch: Any, column: str) -> Any:
        """(B, n, ...), also where n is 1."""
        x = batch.t(column)
        return x[:, None] if batch.rows.ndim == 1 else x

    def goals(self, batch: Any, ctx: Any) -> Any:
        """(B,): what each row's first action was worth: rewards, and the value of what follows
        the last step, or the end of the episode before it."""
        total, factor, last = returns.ahead(
            self.steps(batch, "reward"), self.steps(batch, "terminated"),
            self.steps(batch, "truncated"), ctx.value("discount"))
        obs, allowed = returns.at_step(self.steps(batch, "next_obs"), last), None
        if self.me.action.masked:
            allowed = returns.at_step(self.steps(batch, "next_allowed"), last)
        return total + factor * self.value_of_next(obs, allowed)

    def value_of_next(self, obs: Any, allowed: Any) -> Any:
        """(B,): the target network's value of the best action there."""
        after = self.values(self.target, obs)
        chooser = self.values(self.q, obs) if self.double_q else after
        return (after * one_hot(forbid(chooser, allowed, self.me.action.heads),
                                self.me.action.heads)).sum(-1)

    def loss(self, q: Any, goals: Any) -> Any:
        """(B,)."""
        if self.huber == 0:
            return 0.5 * (q - goals)**2
        return F.huber_loss(q, goals, reduction="none", delta=self.huber)

    def update_target(self, ctx: Any) -> None:
        if self.target_every == 0:
            follow(self.target, self.q, ctx.value("polyak"))
        elif (ctx.update + 1) % self.target_every == 0:
            follow(self.target, self.q, 1.0)
