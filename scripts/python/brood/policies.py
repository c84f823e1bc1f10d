"""Policies of trained agents, in Python: they act as `brood eval` plays them.

    policy = brood.load_policy("x@300000", "agent_0", env)
    action = policy(observation, mask)      # of a PettingZoo or Gymnasium environment

Policies are read from the checkpoint's own files and computed in NumPy, without brood. For an
environment's spaces, and whole episodes, pettingzoo_bridge.py and bridge_spaces.py must be where
brood has them.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import re
import struct
import sys
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from .arrays import Array
from .client import Path, Run, attach, folder_of_scripts
from .errors import Error, one_line
from .networks import Network, shape_of

# These give a score to each combination of an action's parts, others to each part's choices.
# The graph says so by the collection policy/combinations, but not that of an older checkpoint.
_OF_COMBINATIONS = ("iql", "vdn", "qmix", "isac", "masac")
_WITHOUT_POLICY = ("random", "heuristic", "noop", "critic", "graph")


def _outline(text: str) -> dict[str, Any]:
    """The keys of a run's config.yaml, nested; values are texts."""
    root: dict[str, Any] = {}
    stack = [(-1, root)]
    for line in text.splitlines():
        if not (m := re.match(r"( *)([^\s#:-][^:]*):(?:\s+(.*))?$", line)):
            continue
        indent, key, value = len(m[1]), m[2], m[3]
        while stack[-1][0] >= indent:
            stack.pop()
        stack[-1][1][key] = value if value and value != "{}" else {}
        if isinstance(stack[-1][1][key], dict):
            stack.append((indent, stack[-1][1][key]))
    return root


def _setting(config: Mapping[str, Any], agent: str, *keys: str) -> Any:
    """A setting of an agent, or else the one under defaults."""
    for place in (config.get("agents", {}).get(agent, {}), config.get("defaults", {})):
        for key in keys:
            place = place.get(key) if isinstance(place, Mapping) else None
        if place is not None:
            return place
    return None


def _team(name: str) -> str:
    """common/config/team_name.h"""
    return re.sub(r"(?<=.)_?\d+$", "", name)


class Policy:
    """A trained agent's greedy policy, as `brood eval` plays it.

    policy(observation, mask)  an action: of the environment's space if it was loaded for one
                               (as a policy of hybrid actions must be), otherwise the index of
                               the best score, or an array. mask: 1
                               for each choice that is possible; may also stand in the
                               observation, as {"observation": ..., "action_mask": ...}
    policy.scores(rows)        what the network gives for rows (B, O): scores or actions; with
                               env.stack, O is that many observations
    policy.reset()             at the begin of an episode, for policies with a memory, or that see
                               several observations (env.stack)
    policy.run, .step, .agent, .algorithm    whose it is
    """

    def __init__(self, network: Network, run: str, step: int, agent: str, algorithm: str,
                 inputs: dict[str, Any]):
        self.run, self.step, self.agent, self.algorithm = run, step, agent, algorithm
        kind = "continuous" if inputs["kind"] == "box" else inputs["kind"]
        self._spaces = f"{inputs['width']} numbers", kind
        self._network, self._inputs = network, inputs
        self._sees: Any = None
        self._acts: Any = None
        self._carry: Array | None = None
        self._last: Array | None = None
        self._past: list[Array] = []  # the newest observations, oldest first
        self._together = 0            # numbers of a picture's point; 0: it is no picture
        self._carry_name = inputs["carry"]
        self.is_scores: bool = inputs["kind"] == "discrete"
        self._is_hybrid: bool = inputs["kind"] == "hybrid"
        self.reset()

    def __repr__(self) -> str:
        sees, acts = self._spaces
        return (f"<brood.Policy {self.run}@{self.step} {self.agent}: {self.algorithm}, "
                f"observation {sees}, action {acts}>")

    def reset(self) -> None:
        self._carry = self._last = None
        self._past = []

    def _bind(self, sees: Any, acts: Any) -> None:
        """Converts by the bridge's spaces (bridge_spaces.py)."""
        self._sees, self._acts = sees, acts
        width = self._inputs["width"]
        extra = len(self._inputs["id"]) + (acts.width if self._inputs["last_action"] else 0)
        self._together = sees.image[2] if sees.image else 0
        if width != sees.width * self._inputs["stack"] + extra:
            raise Error(f"{self.agent}: the policy sees {width - extra} numbers, the "
                        f"environment shows {sees.width * self._inputs['stack']}")
        if self._inputs["kind"] != acts.described["kind"]:
            named = "continuous" if self._inputs["kind"] == "box" else self._inputs["kind"]
            raise Error(f"{self.agent}: a policy of {named} actions, but "
                        f"those of the environment are {acts.kind}")
        heads = acts.described["heads"]
        n = self._run(np.zeros((1, width), "f4")).shape[1]
        all_heads = int(np.prod(heads))
        if self.is_scores and n == all_heads != acts.width:
            self._inputs["combinations"] = True  # an older checkpoint of a frozen policy
        expected = all_heads if self._inputs["combinations"] else acts.width
        if n != expected:
            raise Error(f"{self.agent}: the policy gives {n} numbers for an action, the "
                        f"environment expects {expected}")
        self.reset()

    def _seen(self, observation: Array) -> Array:
        """An observation as the agent saw it in training: clipped, behind those before it."""
        n, clip = self._inputs["stack"], self._inputs["clip"]
        x = np.asarray(observation, "f4")
        if clip is not None:
            x = x.clip(-clip, clip)
        self._past = [*self._past, x][-n:] if self._past else [x] * n
        parts = [p.reshape(-1, self._together or len(x)) for p in self._past]
        return np.concatenate(parts, 1).ravel()

    def scores(self, observations: Any) -> Array:
        x = np.atleast_2d(np.asarray(observations, "f4"))
        if self._inputs["last_action"]:
            last = np.zeros((len(x), self._acts.width), "f4")
            if self._last is not None:
                last[:] = self._last
            x = np.concatenate([x, last], 1)
        if len(self._inputs["id"]):
            x = np.concatenate([x, np.tile(self._inputs["id"], (len(x), 1))], 1)
        return self._run(x.astype("f4"))

    def _run(self, x: Array) -> Array:
        """The network's output for rows that already have the inputs behind the observation:
        the last action and the agent's id, where the network has them."""
        feeds = {self._inputs["observation"]: x}
        if x.shape[1] != self._inputs["width"]:
            raise Error(f"{self.agent}: an observation of {x.shape[1]} numbers, the policy "
                        f"sees {self._inputs['width']}")
        if self._carry_name is None:
            return self._network.run(feeds)[0]
        if self._carry is None or len(self._carry) != len(x):
            self._carry = np.zeros((len(x), self._inputs["units"]), "f4")
        feeds[self._carry_name] = self._carry
        result, self._carry = self._network.run(feeds)
        return result

    def row(self, observation: Array, mask: bytes | Sequence[int] | None) -> Array:
        """An action as brood has it: one-hot for each part of it, or its numbers."""
        x: Array = self.scores(self._seen(observation))[0]
        if not self.is_scores and not self._is_hybrid:
            return x
        heads = self._acts.described["heads"] if self._acts else [len(x)]
        x, numbers = (x[:sum(heads)], x[sum(heads):]) if self._is_hybrid else (x, x[:0])
        allowed = np.ones(sum(heads), bool) if mask is None else \
            np.array(list(mask), bool).ravel()[:sum(heads) if self._is_hybrid else None]
        if len(allowed) != sum(heads):
            raise Error(f"{self.agent}: a mask of {len(allowed)} for an action with "
                        f"{sum(heads)} choices")
        masks = np.split(allowed, np.cumsum(heads)[:-1])
        masks = [m if m.any() else ~m for m in masks]  # of which nothing is allowed: all
        if self._inputs["combinations"] and len(heads) > 1:
            # The first part's number changes fastest.
            grid = masks[0]
            for m in masks[1:]:
                grid = np.logical_and.outer(m, grid)
            best = np.unravel_index(np.argmax(np.where(grid.ravel(), x, -np.inf)), grid.shape)
            choices = list(best[::-1])
        else:
            parts = np.split(x, np.cumsum(heads)[:-1])
            choices = [np.argmax(np.where(m, p, -np.inf)) for m, p in zip(masks, parts)]
        action = np.concatenate([*(np.arange(n) == c for n, c in zip(heads, choices)), numbers])
        self._last = action.astype("f4")
        return self._last

    def __call__(self, observation: Any, mask: Any = None) -> Any:
        if isinstance(observation, Mapping) and "action_mask" in observation:
            mask = observation["action_mask"] if mask is None else mask
            if self._sees is None:
                observation = observation["observation"]
        if self._sees is None:
            row = self.row(np.ravel(np.asarray(observation, "f4")), mask)
            return int(np.argmax(row)) if self.is_scores else row
        with _refusals():
            if mask is not None and (self.is_scores or self._is_hybrid):
                mask = self._acts.mask(mask)
            x = _numbers(self._sees, self._sees.encode(observation))
            return self._acts.decode(self.row(x, mask).tolist())


def _numbers(sees: Any, encoded: bytes) -> Array:
    """An observation that the bridge encoded."""
    return np.frombuffer(encoded, "u1" if sees.u8 else "<f4")


def _inputs_of(network: Network, config: Mapping[str, Any], agent: str) -> dict[str, Any]:
    """Which tensors are the policy's, and what it sees besides the observation."""
    observation = network.named("policy/observation")
    scores, both = network.named("policy/logits"), network.named("policy/hybrid")
    wanted, units = scores or both or network.named("policy/action"), 0
    carry, following = network.named("policy/carry"), network.named("policy/next_carry")
    if wanted is None and f"{agent}/q" in network.nodes:  # an older one with more inputs
        observation, wanted, scores = f"{agent}/observation:0", f"{agent}/q:0", "q"
        carry = f"{agent}/carry:0" if f"{agent}/carry" in network.nodes else None
    if carry is not None:
        units = shape_of(network.node(carry).attr("shape", 7, b""))[1]
    if observation is None or wanted is None:
        raise Error(f"{agent} has no policy to load: its graph does not name one")
    outputs = [wanted]
    if following is not None:
        outputs.append(following)
    elif carry is not None:  # the state is what the last layer, behind Identity, sees
        layer = network.node(network.node(network.node(wanted).inputs[0]).inputs[0])
        outputs.append(layer.inputs[0])
    network.plan([observation] + ([carry] if carry else []), outputs)
    inputs: dict[str, Any] = {"observation": observation, "carry": carry, "units": units, "id": [],
              "kind": "discrete" if scores is not None else "hybrid" if both is not None else "box",
              "last_action": False,
              "width": shape_of(network.node(observation).attr("shape", 7, b""))[1],
              "combinations": scores is not None and
              (network.named("policy/combinations") is not None or
               _setting(config, agent, "algorithm") in _OF_COMBINATIONS)}
    if _setting(config, agent, "settings", "agent_id") == "true":
        everyone = config["env"].get("teams") == "all"
        team = [a for a in config["agents"] if everyone or _team(a) == _team(agent)]
        inputs["id"] = [float(a == agent) for a in team]
    inputs["last_action"] = _setting(config, agent, "settings", "last_action") == "true"
    inputs["stack"] = int(config["env"].get("stack", 1))
    clip = config["env"].get("clip_observations", "none")
    inputs["clip"] = None if clip == "none" else float(clip)
    return inputs


def _place(run: Path | Run, runs_dir: Path | None) -> tuple[pathlib.Path, dict[str, Any]]:
    """The folder of the checkpoint RUN@STEP or RUN@best, or the newest of RUN, and the
    configuration."""
    step: int | None = None
    if not isinstance(run, Run):
        m = re.fullmatch(r"(.+)@(\d+|best)", os.fspath(run))
        run = attach(m[1] if m else run, runs_dir)
        if m and m[2] != "best":
            step = int(m[2])
        elif m and (step := run.best()) is None:
            raise Error(f"{run.path} has no best checkpoint (checkpoint.keep_best)")
    there = run.checkpoints()
    if not there or step is not None and step not in there:
        which = "checkpoint" if step is None else f"checkpoint {step}"
        raise Error(f"there is no {which} in {run.path}" +
                    (f"; there are: {', '.join(map(str, there))}" if there else ""))
    step = there[-1] if step is None else step
    return (run.path / "checkpoints" / str(step),
            _outline((run.path / "config.yaml").read_text(encoding="utf-8")))


def _load(folder: pathlib.Path, config: Mapping[str, Any], agent: str, game: Any) -> Policy:
    """game: a parallel environment, or None."""
    if agent not in config["agents"]:
        raise Error(f"there is no agent {agent}; there are: {', '.join(config['agents'])}")
    prefix = folder / agent / f"model.ckpt-{folder.name}"
    if (algorithm := _setting(config, agent, "algorithm")) == "program":
        raise Error(f"{prefix}: {agent} is a program of its own, which is not started here: brood "
                    "eval plays it, or load the variables into its network (brood export)")
    if algorithm in _WITHOUT_POLICY:
        raise Error(f"{prefix}: {agent} has no policy to load: its algorithm is {algorithm}")
    try:
        network = Network(prefix)
        policy = Policy(network, folder.parent.parent.name, int(folder.name), agent, algorithm,
                        _inputs_of(network, config, agent))
    except (ValueError, KeyError, IndexError, struct.error, OSError) as e:
        raise Error(f"{prefix}: cannot be read: {type(e).__name__} {e}") from None
    except Error as e:
        raise Error(f"{prefix}: {e}") from None
    if game is not None:
        index = _names(game)
        if agent not in index:
            raise Error(f"the environment has no agent {agent}; there are: {', '.join(index)}")
        _bind(policy, game, game.possible_agents[index.index(agent)])
    elif policy._inputs["last_action"]:
        raise Error(f"{agent}: its policy sees its last action: give the environment, too")
    elif policy._inputs["stack"] > 1 and \
            any(f[2][0] == b"Conv2D" for f in network.nodes.values()):
        raise Error(f"{agent}: its policy sees several pictures: give the environment, too")
    elif policy._is_hybrid:
        raise Error(f"{agent}: its actions are choices and numbers: give the environment, too")
    return policy


def load_policy(run: Path | Run, agent: str, env: Any = None,
                runs_dir: Path | None = None) -> Policy:
    """The policy of an agent, from the checkpoint RUN@STEP or RUN@best, or the newest of RUN. env:
    a PettingZoo or Gymnasium environment whose agent of that name it is to play; without one
    the policy takes plain vectors. Refused are agents without a network of their own, and
    spaces that do not fit."""
    return _load(*_place(run, runs_dir), agent, None if env is None else _parallel(env))


def _bridge() -> Any:
    """pettingzoo_bridge.py, which knows how environments look."""
    here = str(folder_of_scripts())
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module("pettingzoo_bridge")


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What the bridge refuses is an Error."""
    try:
        yield
    except _bridge().Refused as e:
        raise Error(str(e)) from None


def _parallel(env: Any) -> Any:
    with _refusals():
        return _bridge().as_parallel(env)


def _names(game: Any) -> list[str]:
    with _refusals():
        names: list[str] = _bridge().names_of(game.possible_agents)
        return names


def _bind(policy: Policy, game: Any, agent: Any) -> None:
    bridge = _bridge()
    with _refusals():
        sees = bridge.observation_at(game, agent)
        space = bridge.space_of(game, "action_space", agent)
        acts = bridge.Action(space, str(agent))
    policy._bind(sees, acts)
    shown = bridge.space_of(game, "observation_space", agent), space
    policy._spaces = one_line(str(shown[0]), 60), one_line(str(shown[1]), 60)


def load_policies(run: Path | Run, env: Any, runs_dir: Path | None = None
                  ) -> dict[str, Policy]:
    """The policies of all agents of an environment, by name, from the same checkpoint."""
    game, place = _parallel(env), _place(run, runs_dir)
    return {name: _load(*place, name, game) for name in _names(game)}


def play(env: Any, policies: Mapping[str, Policy], episodes: int = 1, seed: int = 0,
         max_steps: int = 0) -> dict[str, Array]:
    """Plays episodes with seeds seed, seed + 1, ... in an environment of any kind that the
    bridge accepts, and returns each agent's undiscounted return of each episode. max_steps:
    the longest episode, 0: without limit."""
    bridge = _bridge()
    with _refusals():
        game = bridge.Game(lambda: env, {})
        copy = game.new_copy()
        names = bridge.names_of(game.agents)
        returns = np.zeros((episodes, len(names)))
        for k in range(episodes):
            seen, present, masks = copy.reset(seed + k)
            for policy in policies.values():
                policy.reset()
            steps = 0
            while any(present) and (max_steps == 0 or steps < max_steps):
                rows = []
                for i, name in enumerate(names):
                    if not present[i]:
                        rows.append([0.0] * game.actions[i].width)
                        continue
                    x = _numbers(game.observations[i], seen[i])
                    mask = masks[i] if masks and policies[name].is_scores else None
                    rows.append(policies[name].row(x, mask).tolist())
                seen, present, masks, reward, _ = copy.step(rows)
                returns[k] += reward
                steps += 1
    return dict(zip(names, returns.T))
