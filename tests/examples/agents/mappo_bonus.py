"""Brood's MAPPO in PyTorch with a bonus of one's own: entropy, until choices are open enough.

    env: {id: simple_spread, copies: 32, reward: team_mean}
    experience: {update_every: 800}
    defaults:
      algorithm: program
      command: [python3, tests/examples/agents/mappo_bonus.py]
      discount: 0.9
      actor: {hidden: [128, 128]}
      critic: {hidden: [128, 128]}
      optimizer: {learning_rate: 0.0007 to 0 over 300000}
      settings: {minibatches: 4}
"""
import brood
from brood.torch import MAPPO


class MappoBonus(MAPPO):
    """MAPPO whose entropy counts up to a level."""
    enough = brood.setting(0.5, doc="the entropy beyond which there is no more bonus", min=0)

    def bonus(self, policy, part, ctx):
        return ctx.value("entropy") * policy.entropy().clamp(max=self.enough)


if __name__ == "__main__":
    brood.main(MappoBonus)
