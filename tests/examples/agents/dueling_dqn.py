"""Double, duelling Q-learning in PyTorch with targets of three steps.

    env:
      command: [python3, scripts/pettingzoo_bridge.py, "tests/examples/cart_pole.py:CartPole"]
      copies: 4
    experience: {capacity: 100000, batch_size: 128, warmup: 1000, update_every: 4}
    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/dueling_dqn.py]
      polyak: 0.02
      clip_norm: none
      critic: {hidden: [128, 128]}
      optimizer: {learning_rate: 0.001 to 0 over 120000}
      settings: {epsilon: 1 to 0.02 over 30000}
"""
import brood
from brood.torch import DQN


class DuelingDQN(DQN):
    """Double, duelling Q-learning, three steps."""
    rows = brood.transitions(3)
    dueling = True


if __name__ == "__main__":
    brood.main(DuelingDQN)
