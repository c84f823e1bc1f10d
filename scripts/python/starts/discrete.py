"""Q-learning with one hidden layer, in NumPy: something to start from.

    brood agent-check starting.py     looks for faults
    brood run starting.yaml           trains

Three methods make an agent: `build` once, `act` at each step, `learn` at each update. All that lasts
longer than a call is a variable of the block: self.variable(...), changed in place.
"""
import numpy as np

import brood


class Starting(brood.Agent):
    """Q-learning with one hidden layer."""        # `brood check` and others print this line
    live = ("discount", "optimizer.learning_rate")  # `brood set` changes them
    epsilon = brood.setting("1 to 0.05 over 100000", doc="share of random actions", min=0, max=1)

    def build(self):
        # self.me is this agent: obs numbers, action.heads choices of each head, action.width their
        # sum; self.settings its section of the configuration.
        o, u, hidden = self.me.obs, self.me.action.width, self.settings["actor"]["hidden"][0]
        first = {"w1": np.random.normal(0, o ** -0.5, (o, hidden)), "b1": np.zeros(hidden),
                 "w2": np.random.normal(0, hidden ** -0.5, (hidden, u)), "b2": np.zeros(u)}
        self.q = {k: self.variable(k, x.astype("f4")) for k, x in first.items()}
        self.squares = {k: self.variable(f"squares/{k}", np.ones_like(x)) for k, x in self.q.items()}
        ends = np.cumsum(self.me.action.heads)
        self.heads = [slice(end - n, end) for n, end in zip(self.me.action.heads, ends)]

    def values(self, obs):
        """(B, O) -> the hidden layer, and (B, U): what each choice of each head is worth."""
        hidden = np.maximum(obs @ self.q["w1"] + self.q["b1"], 0)
        return hidden, hidden @ self.q["w2"] + self.q["b2"]

    def act(self, obs, ctx):
        """obs (E, O), a row for each copy of the environment -> choices (E, heads)."""
        q = self.values(obs)[1]
        if ctx.mode == "explore":                  # "greedy" and "sample" in evaluations
            q = np.where(ctx.uniform(1) < ctx.value("epsilon"), ctx.uniform(q.shape[1]), q)
        if ctx.allowed is not None:                # where the environment has masks
            q = np.where(ctx.allowed, q, -np.inf)
        return np.stack([q[:, h].argmax(1) for h in self.heads], 1)

    def learn(self, batch, ctx):
        """batch: rows of the log, drawn at random."""
        obs, action = batch["obs"], batch["action"]             # (B, O), (B, U) one-hot
        after = self.values(batch["next_obs"])[1]
        hidden, q = self.values(obs)
        d = np.zeros_like(q)                                    # of half the squared error, by q
        for h in self.heads:
            goal = batch["reward"] + ctx.value("discount") * after[:, h].max(1) * (
                1 - batch["terminated"])                        # nothing follows a terminated row
            d[:, h] = np.clip(q[:, h] - goal[:, None], -1, 1) * action[:, h] / len(batch)
        below = (d @ self.q["w2"].T) * (hidden > 0)
        self.descend({"w1": obs.T @ below, "b1": below.sum(0), "w2": hidden.T @ d, "b2": d.sum(0)},
                     ctx.value("optimizer.learning_rate"))
        return {"critic_loss": np.square(d).sum() * len(batch), "q_mean": q.mean()}  # metrics

    def descend(self, gradients, rate):
        """RMSprop. `-=` changes the variables; `self.q[k] = ...` would lose them."""
        for k, g in gradients.items():
            self.squares[k] += np.float32(0.01) * (g * g - self.squares[k])
            self.q[k] -= np.float32(rate) * g / (np.sqrt(self.squares[k]) + np.float32(1e-3))


if __name__ == "__main__":
    brood.main(Starting)
