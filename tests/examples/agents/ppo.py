"""Independent PPO in PyTorch: windows of rows, and two columns of its own in the log.

    env: {copies: 64}
    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/ppo.py]
      actor: {hidden: [64, 64]}
      critic: {hidden: [64, 64]}
      optimizer: {learning_rate: 0.0007}
"""
import torch
from torch import nn

import brood


def mlp(*sizes):
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


class PPO(brood.Agent):
    """Proximal policy optimisation for discrete actions, in PyTorch."""
    rows = brood.window()
    columns = {"log_prob": 1, "value": 1}
    reads = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "log_prob", "value")
    live = ("discount", "clip_norm", "optimizer.learning_rate")
    gae = brood.setting(0.95, doc="lambda of the advantages", min=0, max=1, live=True)
    clip = brood.setting(0.2, doc="largest change of a probability", min=0, max=1, live=True)
    entropy = brood.setting(0.01, doc="weight of the entropy", min=0, live=True)
    epochs = brood.setting(10, doc="passes over a window", min=1)
    minibatches = brood.setting(2, doc="of a pass", min=1)

    def build(self):
        self.pi = mlp(self.me.obs, *self.settings["actor"]["hidden"], self.me.action.width)
        self.v = mlp(self.me.obs, *self.settings["critic"]["hidden"], 1)
        self.track(pi=self.pi, v=self.v)
        self.parameters = [*self.pi.parameters(), *self.v.parameters()]
        self.opt = self.optimizer(self.parameters)

    @torch.no_grad()
    def act(self, obs, ctx):
        x = self.t(obs)
        logp = self.pi(x).log_softmax(-1)
        noise = 0 if ctx.mode == "greedy" else self.t(ctx.gumbel(logp.shape[1]))
        choice = (logp + noise).argmax(1, keepdim=True)
        return brood.Act(choice, {"log_prob": logp.gather(1, choice), "value": self.v(x)})

    def advantages(self, batch, ctx):  # (E, T)
        gamma, end = ctx.value("discount"), batch.t("terminated")
        with torch.no_grad():
            after = self.v(batch.t("next_obs"))[..., 0]
        delta = batch.t("reward") + gamma * after * (1 - end) - batch.t("value")
        goes_on = 1 - torch.maximum(end, batch.t("truncated"))
        found, last = torch.zeros_like(delta), torch.zeros(len(delta))
        for t in reversed(range(delta.shape[1])):
            last = delta[:, t] + gamma * ctx.value("gae") * goes_on[:, t] * last
            found[:, t] = last
        return found

    def learn(self, batch, ctx):
        advantage = self.advantages(batch, ctx)
        goal = (advantage + batch.t("value")).flatten()
        advantage = ((advantage - advantage.mean()) / (advantage.std() + 1e-8)).flatten()
        obs, action = batch.t("obs").flatten(0, 1), batch.t("action").flatten(0, 1)
        old, clip = batch.t("log_prob").flatten(), ctx.value("clip")
        for _ in range(self.epochs):
            for part in torch.randperm(len(obs)).chunk(self.minibatches):
                logp = self.pi(obs[part]).log_softmax(-1)
                ratio, a = ((logp * action[part]).sum(1) - old[part]).exp(), advantage[part]
                actor = -torch.minimum(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a).mean()
                entropy = -(logp.exp() * logp).sum(1).mean()
                critic = (self.v(obs[part])[:, 0] - goal[part]).pow(2).mean()
                self.opt.zero_grad()
                (actor + 0.5 * critic - ctx.value("entropy") * entropy).backward()
                nn.utils.clip_grad_norm_(self.parameters, ctx.value("clip_norm") or 1e9)
                self.opt.step()
        return {"actor_loss": actor, "critic_loss": critic, "entropy": entropy}


if __name__ == "__main__":
    brood.main(PPO)
