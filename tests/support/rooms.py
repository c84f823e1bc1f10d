"""Rooms: agents do not observe where they are, only which moves are allowed there.

An episode begins, depending on its seed, in the hall or in the vault. In the hall agents can
only walk, into the yard, and walk there until the time limit, for 1 point per step; the
guest leaves at the door. In the vault they can only take, which pays 10 points and ends the
episode. In no room they can jump.

So walking has the value 1 / (1 - discount) for the host and 1 for the guest, and taking has
the value 10, unless a learner wrongly counts forbidden moves in the next step's value.
"""
from spaces import Box, Discrete

HOST, GUEST = "host_0", "guest_0"
WALK, TAKE, JUMP = range(3)


class Rooms:
    metadata = {"name": "rooms"}
    possible_agents = [HOST, GUEST]

    def __init__(self, max_cycles=2):
        self.max_cycles = max_cycles

    def observation_space(self, agent):
        return Box(0.0, 1.0, (1,))

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.move = WALK if seed % 2 else TAKE
        self.time = 0
        return self.look()

    def look(self):
        mask = [int(move == self.move) for move in range(3)]
        return ({a: [1.0] for a in self.agents},
                {a: {"action_mask": mask} for a in self.agents})

    def step(self, actions):
        for agent, move in actions.items():
            assert move == self.move, f"{agent} cannot do {move} here, but {self.move}"
        self.time += 1
        obs, infos = self.look()
        over = self.move == TAKE
        cut = not over and self.time >= self.max_cycles
        rewards = {a: 10.0 if over else 1.0 for a in actions}
        ends = {a: over or a == GUEST for a in actions}
        cuts = {a: cut and not ends[a] for a in actions}
        self.agents = [a for a in self.agents if not ends[a] and not cuts[a]]
        return obs, rewards, ends, cuts, infos


parallel_env = Rooms
