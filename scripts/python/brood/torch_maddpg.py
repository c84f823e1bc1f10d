"""Multi-agent deep deterministic policy gradients to subclass: critics that see all observations
and actions, policies that see their own observation; discrete actions or bounded numbers, masks.

An update has three stages, as brood's own maddpg: every agent proposes what its target policy does
next, the critics learn with all proposals, then the policies learn with the critics.

Source    Lowe et al. 2017, "Multi-agent actor-critic for mixed cooperative-competitive
          environments"; Jang, Gu and Poole 2017, "Categorical reparameterization with
          Gumbel-softmax".
"""
from __future__ import annotations

import copy
import math
from typing import Any, Sequence

import torch
from torch import nn

from .agent import Agent
from .errors import Error
from .settings import setting
from .stages import stage, transitions
from .torch_actions import choices_of, forbid, one_hot, soft_choices
from .torch_nets import follow, mean_of, network, step


class MADDPG(Agent):
    """Critics that see all observations and actions, policies that see their own.

    Methods to replace: make_networks; policy (scores, or numbers within their bounds), explored
    (acting); proposed, goals, critic_loss and actor_loss (learning), update_targets.
    """
    rows = transitions()
    reads = ("*/obs", "*/action", "*/next_obs", "obs", "next_obs", "reward", "terminated", "alive")
    live = ("discount", "polyak", "clip_norm", "optimizer.learning_rate")
    defaults = {"actor.output_init": 0.003, "critic.output_init": 0.003,
                "optimizer.learning_rate": 0.003}

    temperature = setting(1.0, "of the Gumbel softmax", min=1e-3, live=True, schedule=True)
    logit_penalty = setting(0.001, "weight of the policy's mean squared scores", min=0, live=True)
    exploration_noise = setting(0.1, "of numbers: its deviation, in half ranges", min=0, live=True,
                                schedule=True)

    # ---- networks ----

    def build(self) -> None:
        space = self.me.action
        self.chooses = space.kind == "discrete"
        self.half, self.middle = (space.high - space.low) / 2, (space.high + space.low) / 2
        if not self.chooses and not (math.isfinite(self.half) and self.half > 0):
            raise Error(f"{type(self).__name__}: the actions of agent {self.name} have no bounds",
                        code="unsupported")
        self.make_networks()
        self.targets = copy.deepcopy(nn.ModuleDict({"actor": self.actor, "critic": self.critic_net}))
        self.track(actor=self.actor, critic=self.critic_net, targets=self.targets)
        self.actor_weights = list(self.actor.parameters())
        self.critic_weights = list(self.critic_net.parameters())
        self.actor_opt = self.optimizer(self.actor_weights, "actor_optimizer", "actor.optimizer")
        self.critic_opt = self.optimizer(self.critic_weights, "critic_optimizer",
                                         "critic.optimizer")

    def make_networks(self) -> None:
        """self.actor (obs -> U) and self.critic_net (all observations, all actions -> 1)."""
        everything = sum(p.obs + p.action.width for p in self.players)
        self.actor = network(self.me.obs, self.me.action.width, self.settings["actor"])
        self.critic_net = network(everything, 1, self.settings["critic"])

    def policy(self, net: Any, obs: Any, allowed: Any = None) -> Any:
        """(B, U): the scores of choices, or numbers."""
        x = net(obs)
        if self.chooses:
            return forbid(x, allowed, self.me.action.heads)
        return x.tanh() * self.half + self.middle

    def value(self, net: Any, obs: Any, actions: Sequence[Any]) -> Any:
        """(B,) of all observations side by side and the actions of each agent."""
        return net(torch.cat([obs, *actions], -1))[:, 0]

    # ---- acting ----

    def act(self, obs: Any, ctx: Any) -> Any:
        with torch.no_grad():
            x = self.policy(self.actor, self.t(obs), ctx.allowed)
            x = self.explored(x, ctx)
            return choices_of(x, self.me.action.heads) if self.chooses else x

    def explored(self, x: Any, ctx: Any) -> Any:
        """Scores with Gumbel noise, so that the largest one is a draw, in evaluations that are
        not greedy, too; numbers with noise in training."""
        width, space = self.me.action.width, self.me.action
        if self.chooses:
            return x if ctx.mode == "greedy" else x + self.t(ctx.gumbel(width))
        if ctx.mode != "explore":
            return x
        noise = self.t(ctx.normal(width)) * ctx.value("exploration_noise") * self.half
        return (x + noise).clamp(space.low, space.high)

    # ---- learning ----

    @stage()
    def propose(self, batch: Any, ctx: Any) -> Any:
        """The target policy's actions after the rows; 0 where the agent is not there then."""
        with torch.no_grad():
            there = batch.t("alive") * (1 - batch.t("terminated"))
            return {"action": self.proposed(batch, ctx) * there[:, None]}

    @stage(reads=["propose/action"], writes=True)
    def critic(self, batch: Any, ctx: Any) -> Any:
        q = self.value(self.critic_net, batch.t("*/obs"), self.actions(batch))
        with torch.no_grad():
            error = self.goals(batch, ctx) - q
        loss = mean_of(self.critic_loss(q, q.detach() + error), self.weights(batch))
        loss.backward()
        norm = step(self.critic_opt, self.critic_weights, ctx.value("clip_norm"))
        return {"critic_loss": loss, "q_mean": q.mean(), "critic_grad_norm": norm,
                "priorities": error.abs() + 1e-6}

    @stage(writes=True)
    def learn(self, batch: Any, ctx: Any) -> Any:
        loss = mean_of(self.actor_loss(batch, ctx), self.weights(batch))
        loss.backward()
        norm = step(self.actor_opt, self.actor_weights, ctx.value("clip_norm"))
        self.critic_opt.zero_grad()
        self.update_targets(ctx)
        return {"actor_loss": loss, "actor_grad_norm": norm}

    def weights(self, batch: Any) -> Any:
        return self.t(batch.weights) * batch.t("alive")

    def actions(self, batch: Any) -> list[Any]:
        """Of each agent (B, U), as executed."""
        return [batch.t(f"{p.name}/action") for p in self.players]

    def proposed(self, batch: Any, ctx: Any) -> Any:
        """(B, U), in the form of the log's actions."""
        allowed = batch.t("next_allowed") if self.me.action.masked else None
        x = self.policy(self.targets["actor"], batch.t("next_obs"), allowed)
        if not self.chooses:
            return x
        noise = self.t(ctx.gumbel(*x.shape))
        return one_hot(x + noise, self.me.action.heads)

    def goals(self, batch: Any, ctx: Any) -> Any:
        """(B,): the reward, and what the target critic says of everyone's proposals."""
        proposals = [self.t(ctx.inputs[f"{p.name}/action"]) for p in self.players]
        after = self.value(self.targets["critic"], batch.t("*/next_obs"), proposals)
        return batch.t("reward") + ctx.value("discount") * after * (1 - batch.t("terminated"))

    def critic_loss(self, q: Any, goals: Any) -> Any:
        """(B,)."""
        return (q - goals)**2

    def actor_loss(self, batch: Any, ctx: Any) -> Any:
        """(B,): less what the critic says of the agent's own choice among the others' actions."""
        allowed = batch.t("allowed") if self.me.action.masked else None
        x, heads = self.policy(self.actor, batch.t("obs"), allowed), self.me.action.heads
        mine = soft_choices(x + self.t(ctx.gumbel(*x.shape)), heads,
                            ctx.value("temperature")) if self.chooses else x
        actions = [mine if p is self.me else a
                   for p, a in zip(self.players, self.actions(batch))]
        return self.penalty(x, ctx) - self.value(self.critic_net, batch.t("*/obs"), actions)

    def penalty(self, x: Any, ctx: Any) -> Any:
        """(B,): keeps scores small, so that choices stay open."""
        if not self.chooses:
            return 0 * x[:, 0]
        return ctx.value("logit_penalty") * (x * x * (x > -1e7)).mean(-1)

    def update_targets(self, ctx: Any) -> None:
        follow(self.targets["actor"], self.actor, ctx.value("polyak"))
        follow(self.targets["critic"], self.critic_net, ctx.value("polyak"))
