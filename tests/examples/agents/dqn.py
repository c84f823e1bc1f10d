"""Independent double DQN in PyTorch.

    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/dqn.py]
      settings: {epsilon: 1 to 0.05 over 60000}
      actor: {hidden: [64, 64]}
      optimizer: {learning_rate: 0.001}
"""
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import brood


def mlp(*sizes):
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class DQN(brood.Agent):
    """Double Q-learning with a target network, in PyTorch."""
    live = ("discount", "polyak", "optimizer.learning_rate")
    epsilon = brood.setting("1 to 0.05 over 60000", doc="share of random actions", min=0, max=1,
                            live=True)
    double = brood.setting(True, doc="the network chooses, its target values")

    def build(self):
        self.q = mlp(self.me.obs, *self.settings["actor"]["hidden"], self.me.action.width)
        self.target = copy.deepcopy(self.q)
        self.track(q=self.q, target=self.target)
        self.opt = self.optimizer(self.q.parameters())

    @torch.no_grad()
    def act(self, obs, ctx):
        best = self.q(self.t(obs)).argmax(1).cpu().numpy()
        if ctx.mode != "explore":
            return best
        u = ctx.uniform(2)
        return np.where(u[:, 0] < ctx.value("epsilon"),
                        (u[:, 1] * self.me.action.width).astype(int), best)

    def goal(self, batch, ctx):
        """What a row's action was worth: the reward, and what follows."""
        with torch.no_grad():
            after = self.target(batch.t("next_obs"))
            chooser = self.q(batch.t("next_obs")) if self.double else after
            after = after.gather(1, chooser.argmax(1, keepdim=True))[:, 0]
            return batch.t("reward") + ctx.value("discount") * after * (1 - batch.t("terminated"))

    def loss(self, q, goal):
        return F.mse_loss(q, goal)

    def learn(self, batch, ctx):
        q = (self.q(batch.t("obs")) * batch.t("action")).sum(1)
        loss = self.loss(q, self.goal(batch, ctx))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, t in zip(self.q.parameters(), self.target.parameters()):
                t.lerp_(p, ctx.value("polyak"))
        return {"critic_loss": loss, "q_mean": q.mean()}


if __name__ == "__main__":
    brood.main(DQN)
