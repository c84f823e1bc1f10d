"""An actor-critic on random features of the observation, in NumPy: something to start from.

    brood agent-check starting.py     looks for faults
    brood run starting.yaml           trains

Three methods make an agent: `build` once, `act` at each step, `learn` at each update. All that lasts
longer than a call is a variable of the block: self.variable(...), changed in place.
"""
import numpy as np

import brood


class Starting(brood.Agent):
    """An actor-critic on random features."""      # `brood check` and others print this line
    rows = brood.window()                          # learns from the newest rows, once
    reads = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
    live = ("discount", "optimizer.learning_rate")  # `brood set` changes them
    deviation = brood.setting(0.5, doc="of explored actions, in halves of their range", min=0.01)
    gae = brood.setting(0.9, doc="lambda of the advantages", min=0, max=1)

    def build(self):
        # self.me is this agent: obs numbers, action.width numbers from action.low to action.high;
        # self.settings its section of the configuration.
        space, hidden = self.me.action, self.settings["actor"]["hidden"][0]
        # What no request changes may be an attribute: another process builds the same.
        self.middle, self.half = (space.high + space.low) / 2, (space.high - space.low) / 2
        self.features = np.random.normal(0, self.me.obs ** -0.5, (self.me.obs + 1, hidden)
                                         ).astype("f4")
        self.actor = self.variable("actor", np.zeros((hidden + 1, space.width), np.float32))
        self.critic = self.variable("critic", np.zeros(hidden + 1, np.float32))
        self.squares = {k: self.variable(f"squares/{k}", np.ones_like(x))
                        for k, x in (("actor", self.actor), ("critic", self.critic))}

    def inputs(self, obs):
        """(..., O) -> (..., hidden + 1), the last of them a constant."""
        return with_one(np.tanh(with_one(obs) @ self.features))

    def act(self, obs, ctx):
        """obs (E, O), a row for each copy of the environment -> actions (E, U)."""
        x = np.tanh(self.inputs(obs) @ self.actor)  # the mean, in halves of the range
        if ctx.mode != "greedy":                   # "explore" in training, "sample": as it is
            x = x + self.deviation * ctx.normal(self.me.action.width)
        return self.middle + self.half * np.clip(x, -1, 1)

    def advantages(self, batch, value, ctx):
        """(E, T): how much better than expected it went on. Nothing follows a terminated row, and
        what follows a truncated one is not in the window."""
        discount = ctx.value("discount")
        after = self.inputs(batch["next_obs"]) @ self.critic
        delta = batch["reward"] + discount * after * (1 - batch["terminated"]) - value
        goes_on = 1 - np.maximum(batch["terminated"], batch["truncated"])
        found, last = np.zeros_like(delta), np.zeros(len(delta), np.float32)
        for t in reversed(range(delta.shape[1])):
            last = delta[:, t] + discount * self.gae * goes_on[:, t] * last
            found[:, t] = last
        return found

    def learn(self, batch, ctx):
        """batch: E copies of T steps, in the order of time."""
        x = self.inputs(batch["obs"])                           # (E, T, hidden + 1)
        value, mean = x @ self.critic, np.tanh(x @ self.actor)
        error = self.advantages(batch, value, ctx)
        better = (error - error.mean()) / (error.std() + 1e-8)
        action = (batch["action"] - self.middle) / self.half
        towards = better[..., None] * (action - mean) / self.deviation * (1 - mean * mean)
        rate, rows = ctx.value("optimizer.learning_rate"), x.reshape(-1, x.shape[-1])
        self.ascend("actor", rows.T @ towards.reshape(len(rows), -1) / len(rows), rate)
        self.ascend("critic", rows.T @ error.reshape(-1) / len(rows), rate)
        return {"critic_loss": np.square(error).mean()}         # scalars of the metrics

    def ascend(self, name, gradient, rate):
        """RMSprop. `+=` changes the variable; `self.actor = ...` would lose it."""
        variable, squares = getattr(self, name), self.squares[name]
        squares += np.float32(0.01) * (gradient * gradient - squares)
        variable += np.float32(rate) * gradient / (np.sqrt(squares) + np.float32(1e-3))


def with_one(x):
    """Adds a constant to the last axis."""
    return np.concatenate([x, np.ones_like(x[..., :1])], -1)


if __name__ == "__main__":
    brood.main(Starting)
