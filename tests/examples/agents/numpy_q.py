"""Independent double Q-learning in NumPy alone: one hidden layer, and Adam by hand.

    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/numpy_q.py]
      settings: {epsilon: 1 to 0.05 over 60000}
      actor: {hidden: [64]}
      optimizer: {learning_rate: 0.001}
"""
import numpy as np

import brood

F = np.float32


class NumpyQ(brood.Agent):
    """Double Q-learning in NumPy, one hidden layer."""
    live = ("discount", "polyak", "optimizer.learning_rate")
    epsilon = brood.setting("1 to 0.05 over 60000", doc="share of random actions", min=0, max=1,
                            live=True)

    def build(self):
        o, h, u = self.me.obs, self.settings["actor"]["hidden"][0], self.me.action.width
        first = {name: np.random.uniform(-1, 1, shape).astype(F) * F(shape[0] ** -0.5)
                 for name, shape in (("w1", (o, h)), ("b1", (h,)), ("w2", (h, u)), ("b2", (u,)))}
        self.q = {k: self.variable(f"q/{k}", x) for k, x in first.items()}
        self.target = {k: self.variable(f"target/{k}", x) for k, x in first.items()}
        self.m = {k: self.variable(f"adam/{k}/m", np.zeros_like(x)) for k, x in first.items()}
        self.v = {k: self.variable(f"adam/{k}/v", np.zeros_like(x)) for k, x in first.items()}
        self.steps = self.variable("adam/steps", np.int64(0))

    @staticmethod
    def forward(net, x):
        hidden = np.maximum(x @ net["w1"] + net["b1"], 0)
        return hidden, hidden @ net["w2"] + net["b2"]

    def act(self, obs, ctx):
        best = self.forward(self.q, obs)[1].argmax(1)
        if ctx.mode != "explore":
            return best
        u = ctx.uniform(2)
        return np.where(u[:, 0] < ctx.value("epsilon"),
                        (u[:, 1] * self.me.action.width).astype(int), best)

    def learn(self, batch, ctx):
        x, y, rows = batch["obs"], batch["next_obs"], np.arange(len(batch))
        choice = self.forward(self.q, y)[1].argmax(1)
        after = self.forward(self.target, y)[1][rows, choice] * (1 - batch["terminated"])
        goal = batch["reward"] + F(ctx.value("discount")) * after

        hidden, q = self.forward(self.q, x)
        error = q[rows, batch.choices()] - goal
        dq = np.zeros_like(q)
        dq[rows, batch.choices()] = error / F(len(batch))
        dh = (dq @ self.q["w2"].T) * (hidden > 0)
        self.adam({"w2": hidden.T @ dq, "b2": dq.sum(0), "w1": x.T @ dh, "b1": dh.sum(0)},
                  ctx.value("optimizer.learning_rate"))
        for k, target in self.target.items():
            target += F(ctx.value("polyak")) * (self.q[k] - target)
        return {"critic_loss": np.mean(error * error), "q_mean": q.mean()}

    def adam(self, gradients, learning_rate):
        self.steps += 1
        t = int(self.steps)
        rate = F(learning_rate * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t))
        for k, g in gradients.items():
            self.m[k] += F(0.1) * (g - self.m[k])
            self.v[k] += F(0.001) * (g * g - self.v[k])
            self.q[k] -= rate * self.m[k] / (np.sqrt(self.v[k]) + F(1e-8))


if __name__ == "__main__":
    brood.main(NumpyQ)
