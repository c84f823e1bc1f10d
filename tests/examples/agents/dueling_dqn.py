"""Double, duelling Q-learning in PyTorch with targets of three steps.

    env:
      command: [python3, scripts/pettingzoo_bridge.py, "tests/examples/cart_pole.py:CartPole"]
      copies: 4
    experience: {capacity: 20000, batch_size: 128, warmup: 1000, update_every: 10}
    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/dueling_dqn.py]
      settings: {epsilon: 1 to 0.02 over 50000}
"""
import brood
from brood.torch import DQN


class DuelingDQN(DQN):
    """Double, duelling Q-learning, three steps."""
    rows = brood.transitions(3)
    dueling = True


if __name__ == "__main__":
    brood.main(DuelingDQN)
