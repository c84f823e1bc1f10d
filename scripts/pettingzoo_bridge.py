#!/usr/bin/env python3
"""Runs a PettingZoo or a Gymnasium environment for brood.

    env: {command: [python3, scripts/pettingzoo_bridge.py, ENVIRONMENT], params: {...}}

ENVIRONMENT is one of
    MODULE           whose parallel_env(**params), or else env(**params), makes one
    MODULE:NAME      whose NAME(**params) makes any kind, or else NAME.parallel_env(**params) or
                     NAME.env(**params); FILE.py:NAME and FILE.py, too
    anything else    gymnasium.make(ENVIRONMENT, **params): CartPole-v1, ALE/Pong-v5, and
                     MODULE:ID, where MODULE is imported first

Needs python3 and msgpack (Debian: python3-msgpack; other Python installations find the
Debian package, too), and whatever the environment needs. It speaks
common/msg/env_protocol.h over descriptors 3 and 4; brood starts it, passes the seed of
every reset, and starts it again if it dies.

Kinds    PettingZoo's parallel environments.
         PettingZoo's environments of turns (AEC): if metadata["is_parallelizable"], every
         agent takes its turn in each step; otherwise the agent whose turn it is acts, and
         the actions of the others are ignored.
         Gymnasium's: a team of one agent; or, if the spaces of actions and of observations
         are Tuples of equal length (lb-foraging, rware), an agent for each of their parts.
         terminations["__all__"] and truncations["__all__"], as of RLlib, end the episode.
Spaces   Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of those, flattened.
         Observations that are all uint8 (pictures) stay bytes, in messages and in the log;
         networks see 0 to 255. Discrete values become one-hot vectors in an observation. For
         Boxes of actions whose entries have different bounds, agents act in [-1, 1] and the
         bridge scales; for a Box of whole numbers it rounds. An action of choices and numbers
         is hybrid: the choices of all parts come first, then their numbers.
Parts    a Box of two or three dimensions is an image (common/config/README.md, "Learn from
         pictures"), also as the only one in a Dict or Tuple. metadata["entities"] = ["things",
         "there"] names a Box (k, w) of a Dict, whose rows are entities, and a MultiBinary (k)
         that says which of them are there; without the second all are. They come last in the
         observation, each with that bit behind its numbers.
Masks    an observation {"observation": ..., "action_mask": ...}, also if the space is
         that of the observation alone; or infos[agent]["action_mask"]; 1 is allowed, 0 not, and
         nothing else is a mask. An environment must give masks from the first reset on, or
         never: later ones are refused. A part of an action for which nothing is allowed counts
         as entirely allowed.
Metrics  env.metrics names numbers of the infos: infos[agent]["success"], or "success" of
         what infos itself holds for all; "episode.r" is infos[agent]["episode"]["r"]. A
         step has the mean over the agents with such a number (true is 1), and none
         without any.
Pictures brood eval --render x.gif makes it with render_mode="rgb_array" and shows what its
         render() returns.
Warnings of what is allowed, but hardly meant: a value outside of its Box and a step without a
         reward, among the first WATCHED steps of each copy; an agent that leaves without an end,
         or is truncated without a last observation. Of each kind, the first one.
Errors   an exception of the environment ends the process, and env.restart decides what
         follows. An environment that breaks PettingZoo's rules ends the run.
Exact    an environment must be a function of its seed and actions. The bridge seeds
         `random` and `numpy.random` at each reset, which makes an environment that uses
         them exact if it is alone in its process (env.processes equal to env.copies).
"""
import importlib
import importlib.util
import itertools
import math
import os
import pathlib
import random
import struct
import sys
import time
import traceback

from bridge_spaces import Action, Refused, entities_of, is_team, observation_of

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
FD_IN, FD_OUT = 3, 4
MAX_PICTURE = 480  # pixels of its longer side
PROTOCOL_VERSION = 1
WATCHED = 200  # steps of each copy whose values are compared with what the spaces say
MAX_WARNINGS = 32  # kinds of warnings that a process sends
PROGRESS_S = 1.0  # during a long request, send `progress` this often
ALL = "__all__"  # in terminations or truncations: they are of all agents (RLlib)
ERR_ARG = -5001  # brood's error code for a bad argument
ERR_AGENT = -5018  # and for a process that failed


def import_msgpack():
    try:
        return importlib.import_module("msgpack")
    except ImportError:
        sys.path.append(DEBIAN_PACKAGES)
        try:
            return importlib.import_module("msgpack")
        except ImportError:
            sys.exit("pettingzoo_bridge.py needs msgpack: apt-get install python3-msgpack")
        finally:
            sys.path.remove(DEBIAN_PACKAGES)


msgpack = import_msgpack()


# ---- worlds ----


def five_of(answer):
    """Checks that a step's result has five values, and returns it."""
    if isinstance(answer, (tuple, list)) and len(answer) == 5:
        return answer
    found = f"{len(answer)} values" if isinstance(answer, (tuple, list)) else \
        f"a {type(answer).__name__}"
    raise Refused(f"its step gives {found}, expected 5, with termination and "
                  "truncation apart: let a wrapper make it so")


def two_of(answer):
    """The same of a reset. A list is an observation."""
    if isinstance(answer, tuple) and len(answer) == 2:
        return answer
    raise Refused("its reset gives no pair of an observation and an info: let a wrapper make it so")


def check_by_agent(**values):
    for what, value in values.items():
        if not hasattr(value, "get"):
            raise Refused(f"{what} of type {type(value).__name__}, expected a dict with a value "
                          "for each agent")


def reset_of(env, seed):
    """(observations, infos) by agent, which old environments leave out."""
    answer = env.reset(seed=seed)
    obs, infos = (answer, {}) if hasattr(answer, "get") else two_of(answer)
    check_by_agent(observations=obs, infos=infos)
    return obs, infos


def is_true(agent, what, value):
    """Whether an agent has ended, or was cut off. A list is refused, as [False] counts as true."""
    if value is None or isinstance(value, (int, float)):
        return bool(value)
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        return bool(value.item())
    raise Refused(f"{agent}: a {what} {value!r:.80}, expected true or false")


def known(agents, possible):
    """Returns the agents, all of which must be possible ones."""
    if not possible.issuperset(agents):
        odd = next(a for a in agents if a not in possible)
        raise Refused(f"{odd!s:.80}: in `agents`, but not in possible_agents, which has all that "
                      "may ever appear")
    return agents


class Team:
    """Makes a Gymnasium environment look like a parallel one with one agent."""

    possible_agents = ["agent_0"]

    def __init__(self, env):
        self.env = env
        self.agents = []

    def observation_space(self, agent):
        return self.env.observation_space

    def action_space(self, agent):
        return self.env.action_space

    def reset(self, seed):
        obs, info = two_of(self.env.reset(seed=seed))
        self.agents = self.possible_agents
        return {"agent_0": obs}, {"agent_0": info}

    def step(self, actions):
        obs, reward, terminated, truncated, info = five_of(
            self.env.step(actions["agent_0"]))
        if is_true("agent_0", "termination", terminated) or \
                is_true("agent_0", "truncation", truncated):
            self.agents = []
        return ({"agent_0": obs}, {"agent_0": reward}, {"agent_0": terminated},
                {"agent_0": truncated}, {"agent_0": info})

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()


class Players(Team):
    """Makes a Gymnasium environment with Tuple spaces look like a parallel one with an
    agent for each part. Rewards and ends are sequences, or one value for all."""

    def __init__(self, env):
        super().__init__(env)
        self.possible_agents = [f"agent_{i}" for i in range(len(env.action_space.spaces))]
        self.index = {a: i for i, a in enumerate(self.possible_agents)}

    def observation_space(self, agent):
        return self.env.observation_space.spaces[self.index[agent]]

    def action_space(self, agent):
        return self.env.action_space.spaces[self.index[agent]]

    def each(self, values, what):
        """agent -> its value, of one value for all or a sequence of all agents' values."""
        if isinstance(values, (list, tuple)) or len(getattr(values, "shape", ())) == 1:
            if len(values) != len(self.index):
                raise Refused(f"{len(values)} {what}, expected {len(self.index)}")
            return dict(zip(self.index, values))
        return dict.fromkeys(self.index, values)

    def infos(self, info):
        """agent -> its info, of a list of infos, or of one with a list of masks."""
        if isinstance(info, dict) and "action_mask" in info:
            masks = self.each(info["action_mask"], "action masks")
            return {a: {"action_mask": mask} for a, mask in masks.items()}
        return dict.fromkeys(self.index, info) if isinstance(info, dict) else \
            self.each(info, "infos")

    def reset(self, seed):
        obs, info = two_of(self.env.reset(seed=seed))
        self.agents = list(self.index)
        self.acted = {}
        return self.each(obs, "observations"), self.infos(info)

    def step(self, actions):
        self.acted.update(actions)  # those who have left repeat their last action
        obs, reward, ends, cuts, info = five_of(self.env.step(tuple(self.acted.values())))
        ends, cuts = self.each(ends, "terminations"), self.each(cuts, "truncations")
        self.agents = [a for a in self.agents if not is_true(a, "termination", ends[a]) and
                       not is_true(a, "truncation", cuts[a])]
        return (self.each(obs, "observations"), self.each(reward, "rewards"), ends, cuts,
                self.infos(info))


class Turns:
    """Makes a PettingZoo environment of turns (AEC) look like a parallel one."""

    def __init__(self, env):
        self.env = env
        self.possible_agents = env.possible_agents
        self.possible = set(env.possible_agents)
        self.together = getattr(env, "metadata", {}).get("is_parallelizable", False)

    @property
    def agents(self):
        """Without those that have ended: AEC environments keep them until their turn."""
        return [a for a in known(self.env.agents, self.possible) if not self.is_over(a)]

    def observation_space(self, agent):
        return space_of(self.env, "observation_space", agent)

    def action_space(self, agent):
        return space_of(self.env, "action_space", agent)

    def is_over(self, agent):
        return self.env.terminations.get(agent) or self.env.truncations.get(agent)

    def remove_ended(self):
        """Lets agents that have ended go, while it is their turn. Returns what `look` gave for
        them."""
        env, ended = self.env, []
        if env.agents and self.is_over(env.agent_selection):
            ended = [a for a in env.agents if self.is_over(a)]
        obs, infos = self.look(ended)
        while env.agents and self.is_over(env.agent_selection):
            env.step(None)
        gone = [a for a in ended if a not in env.agents]
        return {a: obs[a] for a in gone}, {a: infos[a] for a in gone}

    def look(self, agents):
        infos = {a: self.env.infos.get(a) for a in agents}
        return {a: self.env.observe(a) for a in agents}, infos

    def reset(self, seed):
        self.env.reset(seed=seed)
        self.remove_ended()
        return self.look(self.agents)

    def step(self, actions):
        env, acting = self.env, self.agents
        rewards = dict.fromkeys(acting, 0.0)
        ends, cuts, obs, infos = {}, {}, {}, {}
        for _ in acting if self.together else acting[:1]:
            if not env.agents:
                break
            env.step(actions[env.agent_selection])
            for a in acting:
                rewards[a] += reward_of(a, env.rewards.get(a, 0.0))
            ends.update(env.terminations)
            cuts.update(env.truncations)
            seen, told = self.remove_ended()
            obs.update(seen)
            infos.update(told)
        seen, told = self.look([a for a in acting if a not in obs])
        return obs | seen, rewards, ends, cuts, infos | told

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()


def as_parallel(env):
    """An environment of any kind, with the interface of PettingZoo's parallel ones."""
    if hasattr(env, "possible_agents"):
        return Turns(env) if hasattr(env, "agent_iter") else env
    if callable(getattr(env, "action_space", None)):
        raise Refused("it has no possible_agents: all that may ever appear")
    if hasattr(env, "action_space") and hasattr(env, "observation_space"):
        return Players(env) if is_team(env) else Team(env)
    raise Refused(f"it makes a {type(env).__name__}, which is neither a PettingZoo nor "
                  "a Gymnasium environment")


def space_of(env, what, agent):
    get = getattr(env, what, None)
    return get(agent) if callable(get) else getattr(env, what + "s")[agent]


def observation_at(env, agent):
    return observation_of(space_of(env, "observation_space", agent), str(agent), entities_of(env))


class Copy:
    """One copy of the environment, and each agent's last observation and mask. number: among all
    copies of the run."""

    def __init__(self, env, game, number):
        self.env = env
        self.game = game
        self.number = number
        self.time = 0
        self.n_watched = 0

    def reset(self, seed):
        """Returns ([observation bytes], present bytes, [mask bytes]), each by agent."""
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        obs, infos = reset_of(self.env, seed)
        self.time = 0
        self.seen = list(self.game.unseen)
        self.possible = [x.any for x in self.game.actions]
        agents = known(self.env.agents, self.game.possible)
        self.live = [a in agents for a in self.game.agents]
        self.look(obs, infos, "the reset")
        return self.seen, bytes(self.live), self.masks()

    def step(self, rows):
        """rows: each agent's action. Returns what reset does, rewards, terminated bytes; and,
        if there are any, the values of the metrics."""
        game, live, reward, over = self.game, self.live, [], []
        self.time += 1
        self.n_watched += 1
        obs, rewards, ends, cuts, infos = five_of(self.env.step(
            {a: decode(row) for a, decode, row, lives
             in zip(game.agents, game.decoders, rows, live) if lives}))
        for value in (obs, rewards, ends, cuts, infos):
            if type(value) is not dict:  # the usual case is quick, here and below
                check_by_agent(observations=obs, rewards=rewards, terminations=ends,
                               truncations=cuts, infos=infos)
        agents, ended = known(self.env.agents, game.possible), None
        if ends.get(ALL) or cuts.get(ALL):
            agents, ends, cuts = (), *self.ends_of_all(ends, cuts)
        if self.n_watched <= WATCHED:
            self.watch_rewards(rewards, {*agents, *ends, *cuts})
        for i, a in enumerate(game.agents):
            here, cut = a in agents, cuts.get(a, False)
            if type(cut) is not bool:
                cut = is_true(a, "truncation", cut)
            # An agent that disappears without termination or truncation counts as
            # terminated.
            end = ends.get(a, not here and not cut)
            if type(end) is not bool:
                end = is_true(a, "termination", end)
            reward.append(reward_of(a, rewards.get(a, 0.0)) if live[i] else 0.0)
            over.append(bool(live[i] and end))
            if live[i] and not (here and a in obs):
                self.watch_end(a, here, ends.get(a), cut, a in obs)
            live[i] = here and not end and not cut
            if here and not live[i] and ended is None:
                ended = a
        if ended is not None and True in live:
            refuse_ended(ended, ends)
        self.look(obs, infos, "a step")
        metrics = [mean_of(infos, game.agents, name) for name in game.metrics]
        return (self.seen, bytes(live), self.masks(), reward, bytes(over),
                *([metrics] if metrics else []))

    def ends_of_all(self, ends, cuts):
        """The ends of each agent, if the episode is over for all (ALL)."""
        mine = [a for a, lives in zip(self.game.agents, self.live) if lives]
        over = {a: ends.get(a) or (ends.get(ALL) and not cuts.get(a)) for a in mine}
        return over, {a: not over[a] for a in mine}

    def warn(self, what, detail=None):
        where = f"copy {self.number}, " + (f"step {self.time}" if self.time else "the reset")
        self.game.warn(what, f"{where}: {detail}" if detail else where)

    def watch_rewards(self, rewards, there):
        """there: agents that the step says anything of."""
        unpaid = [a for a, lives in zip(self.game.agents, self.live)
                  if lives and a in there and a not in rewards]
        if unpaid and not rewards:
            self.warn("a step without any reward: all count as 0")
        for a in unpaid if rewards else []:
            self.warn(f"{a}: a step without a reward of it, which counts as 0")

    def watch_end(self, a, here, end, cut, seen):
        """For an agent that leaves, or of which there is no observation. end: None: nothing was
        said of it."""
        if cut and not end and not seen:
            self.warn(f"{a}: truncated without an observation, the one before counts as its last")
        elif not here and not end and not cut:
            self.warn(f"{a}: it leaves `agents`, but was neither terminated nor truncated, and "
                      f"counts as {'terminated' if end is None else 'truncated'}")

    def look(self, obs, infos, when):
        """Takes the observations and masks; an agent without a new observation keeps its
        last ones."""
        game = self.game
        for i, a in enumerate(game.agents):
            seen, info = obs.get(a), infos.get(a)
            if a in obs:
                self.seen[i] = game.encoders[i](seen)
                if self.n_watched <= WATCHED and \
                        (outside := game.observations[i].find_outside(self.seen[i])):
                    self.warn(f"{outside[0]}: an observation outside of its Box", outside[1])
            elif self.live[i]:
                raise Refused(f"{a}: it is in `agents`, but {when} gives no observation "
                              "of it")
            if game.masks:
                mask = mask_of(a, seen, info)
                if a in obs or mask is not None:
                    self.possible[i] = game.actions[i].mask(mask)
            elif info or isinstance(seen, dict):
                refuse_mask(a, mask_of(a, seen, info))

    def masks(self):
        return list(self.possible) if self.game.masks else []


def refuse_ended(agent, ends):
    """PettingZoo's rule; which actions the environment expects would be a guess."""
    how = "terminated" if ends.get(agent) else "truncated"
    raise Refused(f"{agent}: {how}, but still in `agents`, while others play on: let the "
                  "environment remove it")


def refuse_mask(agent, mask):
    """For an environment that had no masks at its first reset."""
    if mask is not None:
        raise Refused(f"{agent}: an action mask, but there was none at the first reset: let "
                      "the environment give masks from the reset on (all ones where "
                      "everything is allowed)")


def reward_of(agent, value):
    if type(value) is float:
        return value
    try:
        if not isinstance(value, str):
            return float(value)
        raise ValueError
    except (TypeError, ValueError):
        raise Refused(f"{agent}: a reward {value!r:.80}, expected a number") from None


def mask_of(agent, obs, info):
    if isinstance(obs, dict) and "action_mask" in obs:
        return obs["action_mask"]
    if not info:
        return None
    if not hasattr(info, "get"):
        raise Refused(f"{agent}: an info of type {type(info).__name__}, expected a dict (a list of "
                      "infos: of several agents, whose spaces are no Tuples?)")
    return info.get("action_mask")


def number_in(info, name):
    """The number of that name, or of that path, in an info; None: there is none."""
    if not isinstance(info, dict):
        return None
    if name not in info:
        head, dot, rest = name.partition(".")
        return number_in(info.get(head), rest) if dot else None
    try:
        value = float(info[name])
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def mean_of(infos, agents, name):
    """The mean over the agents whose infos have the number, or the one for all; or NaN."""
    values = [x for x in (number_in(infos.get(a), name) for a in agents) if x is not None]
    if not values:
        common = number_in(infos, name)
        return math.nan if common is None else common
    return sum(values) / len(values)


def name_of(agent):
    """A name that brood accepts: a letter or digit, then letters, digits, "_", "." or "-"."""
    name = "".join(c if c.isalnum() and c.isascii() or c in "_.-" else "_"
                   for c in str(agent))
    return name if name[:1].isalnum() else "agent" + name


def names_of(agents):
    """The names of all agents, each of which brood accepts and none twice."""
    given = {}
    for agent in agents:
        name = name_of(agent)
        if name in given:
            raise Refused(f"its agents {str(given[name])!r:.80} and {str(agent)!r:.80} would both "
                          f"be called {name:.80} here, where a name has A-Z, a-z, 0-9, _ . and - "
                          "only: give them names that differ in these")
        given[name] = agent
    return list(given)


def drawing(make):
    """A maker of environments that draw, whatever `render_mode` the user gave."""
    def make_one(**params):
        try:
            return make(**{**params, "render_mode": "rgb_array"})
        except TypeError as e:
            if "render_mode" not in str(e):
                raise
            raise Refused("it cannot be drawn: it takes no render_mode") from None
    return make_one


def picture_of(env):
    """What render() shows, as the protocol has it; large pictures are made smaller."""
    pixels = env.render() if hasattr(env, "render") else None
    shape = getattr(pixels, "shape", ())
    if len(shape) != 3 or shape[2] != 3 or str(pixels.dtype) != "uint8":
        raise Refused("it cannot be drawn: its render() gives no uint8 array of shape "
                      "(height, width, 3), as render_mode rgb_array says")
    skip = -(-max(shape) // MAX_PICTURE)
    pixels = pixels[::skip, ::skip]
    return {"width": pixels.shape[1], "height": pixels.shape[0], "rgb": pixels.tobytes()}


def limit_of(env):
    """The longest episode that Gymnasium's registry allows it; 0: none."""
    spec = getattr(getattr(env, "env", env), "spec", None)
    return getattr(spec, "max_episode_steps", None) or 0


class Game:
    """What all copies have in common: agents, spaces, and whether there are masks."""

    def __init__(self, make, params, metrics=()):
        self.metrics = metrics
        self.make_env = lambda: make(**params)
        env = self.new_env()
        self.agents = list(env.possible_agents)
        self.possible = set(self.agents)
        first = reset_of(env, 0)  # only now some environments know their spaces
        self.observations = [observation_at(env, a) for a in self.agents]
        self.actions = [Action(space_of(env, "action_space", a), str(a))
                        for a in self.agents]
        self.encoders = [o.encode for o in self.observations]
        self.decoders = [x.decode for x in self.actions]
        self.unseen = [bytes(o.size) for o in self.observations]
        widths = [x.width for x in self.actions]
        self.places = list(zip(itertools.accumulate(widths, initial=0), widths))
        self.masks = self.has_masks(*first)
        self.max_steps = limit_of(env)
        self.first_env = env
        self.warned, self.warnings = set(), []

    def new_env(self):
        return as_parallel(self.make_env())

    def has_masks(self, obs, infos):
        return any(mask_of(a, obs.get(a), infos.get(a)) is not None for a in self.agents)

    def new_copy(self, number=0):
        env, self.first_env = self.first_env or self.new_env(), None
        return Copy(env, self, number)

    def warn(self, what, where):
        if what not in self.warned and len(self.warned) < MAX_WARNINGS:
            self.warned.add(what)
            self.warnings.append({"what": what, "where": where})

    def take_warnings(self):
        taken, self.warnings = self.warnings, []
        return taken

    def described(self, name):
        names = names_of(self.agents)
        return {"name": name, "masks": self.masks, "max_steps": self.max_steps,
                "agents": [{"name": n, **o.described, "action": a.described}
                           for n, o, a in zip(names, self.observations, self.actions)]}


# ---- finding the environment ----


def load_file(path):
    path = pathlib.Path(path)
    if not path.is_file():
        raise Refused(f"there is no file {path}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def load_module(name):
    """Imports the module; returns None if there is none of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is None or not (name + ".").startswith(e.name + "."):
            raise  # the module exists, but one that it imports does not
        return None


def gymnasium_maker(name, why):
    """A maker that uses gymnasium.make. why: the reason that no other way was found."""
    gymnasium = load_module("gymnasium")
    if gymnasium is None:
        raise Refused(f"{why}, and no gymnasium to make it")

    def make(**params):
        try:
            return gymnasium.make(name, **params)
        except gymnasium.error.UnregisteredEnv as e:
            raise Refused(f"{why}, and gymnasium says: {e}") from None
    return make


def attribute_of(found, path):
    """What a module has of that name, such as "a.b", also a module of a package; None: nothing."""
    for name in path.split("."):
        below = getattr(found, name, None)
        if below is None and name.isidentifier() and hasattr(found, "__path__"):
            below = load_module(f"{found.__name__}.{name}")
        if below is None:
            return None
        found = below
    return found


def find_maker(name):
    """The function that makes the environment from its parameters."""
    place, _, attribute = name.partition(":")
    module = load_file(place) if place.endswith(".py") else \
        load_module(place) if place.replace(".", "").isidentifier() else None
    if module is None:
        return gymnasium_maker(name, f"there is no Python module {place}")
    found = attribute_of(module, attribute) if attribute else module
    for maker in (found, getattr(found, "parallel_env", None), getattr(found, "env", None)):
        if callable(maker):
            return maker
    if found not in (None, module):
        raise Refused(f"{place} has {attribute}, but it is no function or class, and has no "
                      "parallel_env or env")
    attribute = attribute or "parallel_env"
    if attribute.replace(".", "").isidentifier():
        raise Refused(f"{place} has no {attribute}")
    return gymnasium_maker(name, f"{place} has no {attribute}")


# ---- error messages ----


def is_library(file):
    return "site-packages" in file or "dist-packages" in file or \
        file.startswith(sys.base_prefix + "/lib/python")


def place_of(e):
    """"FILE:LINE: " of the innermost frame in the environment's code, or in a library."""
    here = pathlib.Path(__file__).parent
    frames = [f for f in traceback.extract_tb(e.__traceback__)
              if not f.filename.startswith("<") and pathlib.Path(f.filename).parent != here]
    own = [f for f in frames if not is_library(f.filename)] or frames
    if not own:
        return ""
    near = os.path.relpath(own[-1].filename)
    return f"{own[-1].filename if near.startswith('..') else near}:{own[-1].lineno}: "


def line_of(e):
    """The error in one line; the log has the traceback."""
    if isinstance(e, Refused):
        return str(e)
    traceback.print_exception(type(e), e, e.__traceback__)
    try:
        text = " ".join(str(e).split())
    except Exception as why:
        text = f"its text raises {type(why).__name__}"
    return place_of(e) + type(e).__name__ + (f": {text}" if text else "")


# ---- messages ----


def by_agent(rows):
    """A sequence by agent of each copy, as one sequence: agent by agent, copy by copy."""
    return rows[0] if len(rows) == 1 else [v for column in zip(*rows) for v in column]


class Server:
    def __init__(self, name):
        self.name = name
        self.input = os.fdopen(FD_IN, "rb")
        self.pack = msgpack.Packer(use_bin_type=True, unicode_errors="backslashreplace").pack
        self.sent_at = time.monotonic()
        self.game = None
        self.draws = False
        self.copies = []
        self.first = 0
        self.current = None  # the copy that a request is at, for messages
        self.methods = {"configure": self.configure, "reset": self.reset,
                        "step": self.step, "shutdown": self.shutdown}

    def send(self, message):
        data = self.pack(message)
        data = len(data).to_bytes(4, "little") + data
        while data:
            data = data[os.write(FD_OUT, data):]
        self.sent_at = time.monotonic()

    def receive(self):
        """Reads a request: (id, method, params), or None at end of file."""
        head = self.input.read(4)
        if len(head) < 4:
            return None
        data = self.input.read(int.from_bytes(head, "little"))
        _, number, method, params = msgpack.unpackb(data, raw=False)
        return number, method, params

    def sign_of_life(self):
        if time.monotonic() - self.sent_at > PROGRESS_S:
            self.send([2, "progress", {}])

    def configure(self, params):
        make, self.draws = find_maker(self.name), params.get("draw", False)
        self.game = Game(drawing(make) if self.draws else make, params["params"],
                         params.get("metrics", ()))
        self.copies = [None] * params["copies"]
        self.first = params["first"]
        return self.game.described(self.name)

    def gather(self, copies, parts, width):
        """The arrays of an answer, ordered by agent. parts: the results of each copy, `width`
        of them; there may be no copy."""
        seen, present, masks, *of_step = map(by_agent, zip(*parts)) if parts else [[]] * width
        answer = {"obs": b"".join(seen), "present": bytes(present)}
        if self.game.masks:
            answer["allowed"] = b"".join(masks)
        if of_step:
            reward, over, *metrics = of_step
            answer["reward"] = struct.pack(f"<{len(reward)}d", *reward)
            answer["terminated"] = bytes(over)
            for values in metrics:
                answer["metrics"] = struct.pack(f"<{len(values)}d", *values)
        if self.game.warnings:
            answer["warnings"] = self.game.take_warnings()
        if self.draws and copies:
            answer["picture"] = picture_of(self.copies[copies[-1]].env)
        return answer

    def reset(self, params):
        copies = memoryview(params["copies"]).cast("I").tolist()
        seeds = memoryview(params["seed"]).cast("Q").tolist()
        parts = []
        for c, seed in zip(copies, seeds):
            self.current = c
            if self.copies[c] is None:
                self.copies[c] = self.game.new_copy(self.first + c)
            parts.append(self.copies[c].reset(seed & 0x7fffffff))
            self.sign_of_life()
        return self.gather(copies, parts, 3)

    def step(self, params):
        copies = memoryview(params["copies"]).cast("I").tolist()
        x = memoryview(params["actions"]).cast("f").tolist()
        n, parts = len(copies), []
        for i, c in enumerate(copies):
            self.current = c
            # Of each agent there are n rows, one after another.
            rows = [x[n * at + i * w:n * at + i * w + w] for at, w in self.game.places]
            parts.append(self.copies[c].step(rows))
            self.sign_of_life()
        return self.gather(copies, parts, 5)

    def shutdown(self, params):
        for c, copy in enumerate(self.copies):
            self.current = c
            if copy is not None and hasattr(copy.env, "close"):
                copy.env.close()
        return {}

    def serve(self):
        self.send([2, "hello", {"protocol": PROTOCOL_VERSION}])
        while (request := self.receive()) is not None:
            number, method, params = request
            self.current = None
            try:
                result = self.methods[method](params)
                self.send([1, number, None, result])
            except (Exception, SystemExit) as e:
                code = ERR_ARG if isinstance(e, Refused) else ERR_AGENT
                line = line_of(e)
                if self.current is not None:
                    line = f"copy {self.first + self.current}: {line}"
                self.send([1, number, {"code": code, "message": line[:400]}, None])
            if method == "shutdown":
                return


def main():
    if len(sys.argv) != 2 or sys.byteorder != "little":
        sys.exit(__doc__)
    sys.path.append(os.getcwd())
    Server(sys.argv[1]).serve()


if __name__ == "__main__":
    main()
