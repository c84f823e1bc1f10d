"""A policy and a critic that learn from windows: the networks of PPO, and how it acts."""
from __future__ import annotations

from typing import Any, ClassVar, Mapping, Sequence

import torch
from torch import nn

from . import returns
from .agent import Act, Agent
from .stages import window
from .torch_actions import policy_of
from .torch_nets import hidden, last, network

Part = dict[str, Any]  # tensors by name, such as PPO.learn lists


class ActorCritic(Agent):
    """A policy and a critic; it does not learn.

    Class attributes to set
    carry         units of a recurrent layer (GRU) behind the policy's hidden ones, its memory,
                  which the critic reads, too; 0: none
    critic_sees   a column that the critic sees: "obs", "*/obs" (all observations), "agent_1/obs"

    Methods to replace: make_networks and what applies them (features, value, policy).
    (...) is (E,) in `act`, (E, T) of a window, (N,) of drawn rows.
    """
    rows = window()
    columns: ClassVar[Mapping[str, int]] = {"log_prob": 1}
    reads: ClassVar[Sequence[str]] = ("obs", "action", "reward", "next_obs", "terminated",
                                      "truncated", "first", "alive", "log_prob")
    critic_sees: ClassVar[str] = "obs"
    live = ("discount", "clip_norm", "optimizer.learning_rate")
    defaults = {"discount": 0.99, "clip_norm": 10, "optimizer.learning_rate": 0.0007,
                "optimizer.epsilon": 1e-5, "actor.output_init": 0.01, "actor.init": "orthogonal",
                "critic.init": "orthogonal"}

    def __init_subclass__(cls, **more: Any) -> None:
        """Columns follow from the two attributes."""
        super().__init_subclass__(**more)
        added = [cls.critic_sees, cls.after(cls.critic_sees)]
        if cls.carry:
            cls.columns = {**cls.columns, "carry": cls.carry}
            added.append("carry")
        cls.reads = tuple(dict.fromkeys([*cls.reads, *added]))

    @staticmethod
    def after(column: str) -> str:
        """What `critic_sees` is after a step: "*/next_obs" of "*/obs"."""
        who, slash, name = column.rpartition("/")
        return f"{who}{slash}next_{name}"

    # ---- networks ----

    def build(self) -> None:
        self.make_networks()
        self.actor = nn.ModuleList([self.body, self.cell, self.head])
        self.track(actor=self.actor, critic=self.critic)
        self.actor_weights = list(self.actor.parameters())
        self.critic_weights = list(self.critic.parameters())
        self.log_std = torch.zeros(0)
        if self.me.action.kind != "discrete":
            self.log_std = torch.zeros(self.me.action.width, requires_grad=True)
            self.track(log_std=self.log_std)
            self.actor_weights.append(self.log_std)
        self.actor_opt = self.optimizer(self.actor_weights, "actor_optimizer", "actor.optimizer")
        self.critic_opt = self.optimizer(self.critic_weights, "critic_optimizer",
                                         "critic.optimizer")

    def make_networks(self) -> None:
        """self.body (obs -> features), self.cell (features, memory -> memory, or nn.Identity),
        self.head (features or memory -> scores or means), self.critic (see `value`)."""
        actor, critic = self.settings["actor"], self.settings["critic"]
        self.body, width = hidden(self.me.obs, actor)
        self.cell: Any = nn.GRUCell(width, self.carry) if self.carry else nn.Identity()
        self.head = last(self.carry or width, self.me.action.width, actor)
        self.critic = network(self.seen_width() + self.carry, 1, critic)

    def seen_width(self) -> int:
        """How many numbers `critic_sees` has."""
        who = self.critic_sees.rpartition("/")[0] or self.name
        return sum(p.obs for p in self.players if who in ("*", p.name))

    def features(self, part: Part) -> Any:
        """(..., F) of part["obs"]; with a memory what it holds after each step of the sequences
        (E, T), from part["carry"] on, emptied at part["first"]."""
        x = self.body(part["obs"])
        return returns.unroll(self.cell, x, part["carry"], part["first"]) if self.carry else x

    def policy(self, features: Any, allowed: Any = None) -> Any:
        """A distribution (torch_actions.py)."""
        return policy_of(self.me.action, self.head(features), self.log_std, allowed)

    def value(self, features: Any, seen: Any) -> Any:
        """(...) of what the critic sees, and of the memory, which it does not change."""
        if self.carry:
            seen = torch.cat([seen, features.detach()], -1)
        return self.critic(seen)[..., 0]

    # ---- acting ----

    def act(self, obs: Any, ctx: Any) -> Any:
        with torch.no_grad():
            x, carry, columns = self.body(self.t(obs)), None, {}
            if self.carry:
                columns["carry"] = self.t(ctx.carry)
                x = carry = self.cell(x, columns["carry"])
            policy = self.policy(x, ctx.allowed)
            action = policy.best() if ctx.mode == "greedy" else policy.sample(ctx)
            columns["log_prob"] = policy.log_prob(action)
            return Act(policy.chosen(action), columns, carry)

    # ---- rows ----

    def observed(self, batch: Any) -> Part:
        """The part of a window (E, T) that was stored: obs, seen (by the critic), action,
        log_prob, alive; allowed if there are masks; with a memory carry (E, H) and first."""
        part = {k: batch.t(k) for k in ("obs", "action", "log_prob", "alive")}
        part["seen"] = batch.t(self.critic_sees)
        if self.me.action.masked:
            part["allowed"] = batch.t("allowed")
        if self.carry:
            part["carry"], part["first"] = batch.t("carry")[:, 0], batch.t("first")
        return part

    def values(self, part: Part, batch: Any) -> tuple[Any, Any]:
        """(E, T) of a window's observations, and of those that follow them."""
        x, y = self.features(part), self.body(batch.t("next_obs"))
        if self.carry:
            y = self.cell(y.flatten(0, 1), x.flatten(0, 1)).reshape(x.shape)
        return self.value(x, part["seen"]), self.value(y, batch.t(self.after(self.critic_sees)))
