"""A DQN in PyTorch: something to start from.

    brood agent-check starting.py     looks for faults
    brood run starting.yaml           trains

Three methods make an agent: `build` once, `act` at each step, `learn` at each update. All that lasts
longer than a call is in the block: what is given to self.track(...) and self.optimizer(...).
"""
import copy

import torch
import torch.nn.functional as F
from torch import nn

import brood


class Starting(brood.Agent):
    """A deep Q-network."""                        # `brood check` and others print this line
    live = ("discount", "polyak", "optimizer.learning_rate")  # `brood set` changes them
    epsilon = brood.setting("1 to 0.05 over 100000", doc="share of random actions", min=0, max=1)

    def build(self):
        # self.me is this agent, self.settings its section of the configuration.
        width = self.settings["actor"]["hidden"][0]
        self.q = nn.Sequential(nn.Linear(self.me.obs, width), nn.ReLU(),
                               nn.Linear(width, width), nn.ReLU(),
                               nn.Linear(width, self.me.action.width))
        self.target = copy.deepcopy(self.q)
        self.track(q=self.q, target=self.target)
        self.opt = self.optimizer(self.q.parameters())

    def heads(self, x):
        """Splits (B, U) into the heads of an action: most environments have one."""
        return x.split(list(self.me.action.heads), 1)

    @torch.no_grad()
    def act(self, obs, ctx):
        """obs (E, O), a row for each copy of the environment -> choices (E, heads)."""
        q = self.q(self.t(obs))
        if ctx.mode == "explore":                  # "greedy" and "sample" in evaluations
            u = self.t(ctx.uniform(1 + q.shape[1]))
            q = torch.where(u[:, :1] < ctx.value("epsilon"), u[:, 1:], q)
        if ctx.allowed is not None:                # where the environment has masks
            q = torch.where(self.t(ctx.allowed), q, -torch.inf)
        return torch.stack([h.argmax(1) for h in self.heads(q)], 1)

    def learn(self, batch, ctx):
        """batch: rows of the log, drawn at random."""
        q, action = self.q(batch.t("obs")), batch.t("action")   # (B, U), (B, U) one-hot
        with torch.no_grad():
            after = self.heads(self.target(batch.t("next_obs")))
            goes_on = ctx.value("discount") * (1 - batch.t("terminated"))
            goals = [batch.t("reward") + goes_on * h.max(1).values for h in after]
        loss = sum(F.smooth_l1_loss((h * a).sum(1), goal)
                   for h, a, goal in zip(self.heads(q), self.heads(action), goals))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, t in zip(self.q.parameters(), self.target.parameters()):
                t.lerp_(p, ctx.value("polyak"))
        return {"critic_loss": loss, "q_mean": q.mean()}        # scalars of the metrics


if __name__ == "__main__":
    brood.main(Starting)
