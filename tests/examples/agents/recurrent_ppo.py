"""PPO in PyTorch with a memory of 64 numbers.

    env:
      command: [python3, scripts/pettingzoo_bridge.py, "tests/bench/memory_tasks.py:Recall"]
      copies: 16
    experience: {update_every: 1056}
    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/recurrent_ppo.py]
      optimizer: {learning_rate: 0.001}
      settings: {minibatches: 4}
"""
import brood
from brood.torch import PPO


class RecurrentPPO(PPO):
    """PPO with a recurrent layer (GRU)."""
    carry = 64


if __name__ == "__main__":
    brood.main(RecurrentPPO)
