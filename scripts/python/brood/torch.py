"""Agents to subclass, in PyTorch, and the parts that they are made of.

    from brood.torch import MAPPO

    class Mine(MAPPO):
        def bonus(self, policy, part, ctx):
            return ctx.value("entropy") * policy.entropy().clamp(max=1)

Agents    DQN; PPO, MAPPO (and ActorCritic, their networks and how they act); MADDPG
Networks  network, hidden, last: as the configuration's sections describe them; step, follow, mean_of
Actions   policy_of, Choices, Numbers: distributions; forbid: masks; one_hot, choices_of
"""
from .torch_actions import Choices as Choices, Numbers as Numbers, choices_of as choices_of
from .torch_actions import forbid as forbid, one_hot as one_hot, policy_of as policy_of
from .torch_actions import soft_choices as soft_choices
from .torch_actor_critic import ActorCritic as ActorCritic
from .torch_dqn import DQN as DQN
from .torch_maddpg import MADDPG as MADDPG
from .torch_nets import follow as follow, hidden as hidden, last as last, mean_of as mean_of
from .torch_nets import network as network, step as step
from .torch_ppo import MAPPO as MAPPO, PPO as PPO, ValueNorm as ValueNorm
