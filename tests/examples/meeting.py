"""Two walkers on a line, who have to meet: an environment in thirty lines.

from_python.py trains on it. It needs no PettingZoo: brood.Env has the interface."""
import brood

END = 5


class Meeting(brood.Env):
    possible_agents = ["walker_0", "walker_1"]
    observations = brood.Box(-1, 1, (2,))  # the own place, and the other one's
    actions = brood.Discrete(3)            # left, stay, right
    max_steps = 12

    def begin(self):
        self.at = {a: self.draw.randint(-END, END) for a in self.agents}
        return self.look()

    def act(self, actions):
        for a, action in actions.items():
            self.at[a] += action - 1
        gap = abs(self.at["walker_0"] - self.at["walker_1"])
        return self.look(), {a: -gap / END for a in actions}, gap == 0

    def masks(self):
        return {a: [at > -END, True, at < END] for a, at in self.at.items()}

    def look(self):
        x, y = (at / END for at in self.at.values())
        return {"walker_0": [x, y], "walker_1": [y, x]}


parallel_env = Meeting
