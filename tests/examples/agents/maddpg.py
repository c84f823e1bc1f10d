"""MADDPG in PyTorch whose critics learn from absolute errors beyond 1.

    env: {id: simple_spread, copies: 32, reward: team_mean}
    experience: {batch_size: 1024, update_every: 100}
    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/maddpg.py]
"""
from torch.nn.functional import smooth_l1_loss

import brood
from brood.torch import MADDPG


class RobustMADDPG(MADDPG):
    """MADDPG with a robust loss of the critics."""

    def critic_loss(self, q, goals):
        return smooth_l1_loss(q, goals, reduction="none")


if __name__ == "__main__":
    brood.main(RobustMADDPG)
