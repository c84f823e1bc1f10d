"""An actor-critic in PyTorch: something to start from.

    brood agent-check starting.py     looks for faults
    brood run starting.yaml           trains

Three methods make an agent: `build` once, `act` at each step, `learn` at each update. All that lasts
longer than a call is in the block: what is given to self.track(...) and self.optimizer(...).
"""
import torch
from torch import nn

import brood


class Starting(brood.Agent):
    """An actor-critic of normal distributions."""  # `brood check` and others print this line
    rows = brood.window()                           # learns from the newest rows, once
    reads = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
    live = ("discount", "optimizer.learning_rate")  # `brood set` changes them
    deviation = brood.setting(0.5, doc="of explored actions, in halves of their range", min=0.01)
    gae = brood.setting(0.9, doc="lambda of the advantages", min=0, max=1)

    def build(self):
        # self.me is this agent, self.settings its section of the configuration.
        space, width = self.me.action, self.settings["actor"]["hidden"][0]
        self.actor = nn.Sequential(nn.Linear(self.me.obs, width), nn.Tanh(),
                                   nn.Linear(width, space.width), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(self.me.obs, width), nn.Tanh(), nn.Linear(width, 1))
        self.track(actor=self.actor, critic=self.critic)
        self.opt = self.optimizer([*self.actor.parameters(), *self.critic.parameters()])
        self.middle, self.half = (space.high + space.low) / 2, (space.high - space.low) / 2

    @torch.no_grad()
    def act(self, obs, ctx):
        """obs (E, O), a row for each copy of the environment -> actions (E, U)."""
        x = self.actor(self.t(obs))      # the mean, in units of half the range
        if ctx.mode != "greedy":                   # "explore" in training, "sample": as it is
            x = x + self.deviation * self.t(ctx.normal(x.shape[1]))
        return self.middle + self.half * x.clamp(-1, 1)

    @torch.no_grad()
    def advantages(self, batch, value, ctx):
        """(E, T): how much better than expected it went on. Nothing follows a terminated row, and
        what follows a truncated one is not in the window."""
        discount, end = ctx.value("discount"), batch.t("terminated")
        after = self.critic(batch.t("next_obs"))[..., 0]
        delta = batch.t("reward") + discount * after * (1 - end) - value
        goes_on = 1 - torch.maximum(end, batch.t("truncated"))
        found, last = torch.zeros_like(delta), torch.zeros(len(delta))
        for t in reversed(range(delta.shape[1])):
            last = delta[:, t] + discount * self.gae * goes_on[:, t] * last
            found[:, t] = last
        return found

    def learn(self, batch, ctx):
        """batch: E copies of T steps, in the order of time."""
        value, mean = self.critic(batch.t("obs"))[..., 0], self.actor(batch.t("obs"))  # (E, T, ...)
        error = self.advantages(batch, value, ctx)
        better = (error - error.mean()) / (error.std(unbiased=False) + 1e-8)
        action = (batch.t("action") - self.middle) / self.half
        distance = ((action - mean) / self.deviation).pow(2).sum(-1)
        actor = (better * distance / 2).mean()                  # further from what was worse
        critic = (error + value.detach() - value).pow(2).mean()
        self.opt.zero_grad()
        (actor + critic).backward()
        self.opt.step()
        return {"actor_loss": actor, "critic_loss": critic}     # scalars of the metrics


if __name__ == "__main__":
    brood.main(Starting)
