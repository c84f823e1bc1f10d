"""Agents of one's own, with NumPy or PyTorch.

    import brood

    class Mine(brood.Agent):
        \"\"\"What `brood algorithms` says of it.\"\"\"
        live = ("discount", "optimizer.learning_rate")
        epsilon = brood.setting("1 to 0.05 over 60000", doc="how often it explores", min=0, max=1)

        def build(self): ...              # networks; self.track(net=...); self.optimizer(...)
        def act(self, obs, ctx): ...      # (E, O) -> choices (E,) or actions (E, U)
        def learn(self, batch, ctx): ...  # changes what is tracked -> {"critic_loss": 0.1}

    if __name__ == "__main__":
        brood.main(Mine)

with, in the configuration, `algorithm: program` and `command: [python3, mine.py]`.

State     An agent is a function (block, request) -> (block, answer). All that lives longer than a
          request is in the block, which the supervisor copies: what was given to `track`,
          `optimizer` and `variable`, all in `build`. A process that replaces a killed one builds
          the same object, finds the block, and gets the requests since then again. So keep
          nothing in attributes that a request changes.
Pure      `act`, and stages without writes=True, must not change what is tracked.
Random    numbers come from ctx, or from the global generators of random, NumPy and torch, which
          are seeded for each request (and before `build`, by the seed and the agent's name).
Checked   The first requests of each kind are repeated with a fresh object on a copy of the block,
          as after a kill. If that gives other bytes the run fails, and says what differs.
Letters   E copies of the environment, B rows, L consecutive steps, O and U widths of the agent's
          observation and action, H of its carry, X of a column.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Mapping, Sequence

from . import devices
from .arrays import Array
from .errors import Error
from .players import Player
from .settings import Section
from .stages import Rows, transitions

if TYPE_CHECKING:
    from .context import Context
    from .runtime import Runtime


@dataclass
class Act:
    """The full answer of `act`.

    actions   integers (E,) or (E, heads), the chosen entries; or numbers (E, U)
    columns   {name: (E, X)} of the agent's `columns`, which become part of the log's rows
    carry     (E, H), which comes back as ctx.carry with the next step of the same episode
    Arrays of NumPy or tensors of torch; (E,) is as good as (E, 1).
    """
    actions: Any
    columns: Mapping[str, Any] = field(default_factory=dict)
    carry: Any = None


class Agent:
    """Derive from it; see the module's text, and README.md for a longer one.

    Class attributes
    rows      what a stage gets: transitions(n), episodes() or window()
    reads     the columns of the log that stages use: "obs" the agent's own, "*/obs" every
              agent's, "agent_1/obs", "truncated"
    columns   {name: width}: columns that `act` adds to each row
    carry     H, the width of what `act` carries through an episode
    live      settings that can change during a run: "discount", "optimizer.learning_rate",
              "polyak", and names of its own; read them with ctx.value
    defaults  {key: value} of the agent's section of the configuration where the file does not say:
              {"discount": 0.99, "optimizer.learning_rate": "0.001 to 0 over 100000"}
    scalars   {name: meaning} or {name: (meaning, unit)}: what its stages return. A number that is
              not listed is taken, too, and gets a column of progress.csv when it first comes
    hybrid    True: it can take actions that are choices and numbers (players.Space); otherwise a
              run with such actions is refused. It answers `act` with (E, U): one-hot heads, then
              the numbers

    Attributes from `build` on
    me        this agent: me.obs, me.action.width, me.action.heads, ...
    players   all agents of the environment, in its order
    settings  this agent's section of the configuration, read-only: settings["actor"]["hidden"].
              The settings that the class declares are attributes
    name, seed, env (its id), max_steps (of an episode; 0: without limit)
    device    "cpu", or the GPU of the configuration's key `device`, "cuda:0", on which tensors are
              made that name no device
    """

    rows: ClassVar[Rows] = transitions()
    reads: ClassVar[Sequence[str]] = ("obs", "action", "reward", "next_obs", "terminated")
    columns: ClassVar[Mapping[str, int]] = {}
    carry: ClassVar[int] = 0
    live: ClassVar[Sequence[str]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}
    scalars: ClassVar[Mapping[str, str | tuple[str, str]]] = {}
    hybrid: ClassVar[bool] = False

    me: Player
    players: tuple[Player, ...]
    settings: Section
    name: str
    seed: int
    env: str
    max_steps: int
    device: str = devices.CPU
    _runtime: Runtime

    def build(self) -> None:
        """Makes networks and variables, and gives them to `track`, `optimizer` and `variable`.
        A function of the attributes above alone. The global generators are seeded: initial
        weights depend on the run's seed and the agent's name."""

    def act(self, obs: Array, ctx: Context) -> Any:
        """Chooses the actions of E copies at once. obs: (E, O) float32. Returns integers (E,) or
        (E, heads); or numbers (E, U); or an Act. Pure."""
        raise Error(f"{type(self).__name__} has no method act", code="unsupported")

    def t(self, x: Array) -> Any:
        """An array, such as obs or ctx.gumbel(n), as a torch tensor on the agent's device."""
        return devices.place(x, self.device)

    def variable(self, name: str, value: Any) -> Array:
        """An array in the block, with this value at first. Change it in place: x[...] = y,
        x += y. Only in `build`."""
        return self._runtime.add_variable(name, value)

    def track(self, **things: Any) -> None:
        """Moves into the block, under these names: the parameters and buffers of torch modules,
        tensors, and the state of optimisers (Adam, AdamW, SGD, RMSprop; after the modules whose
        parameters they have). They stay the same objects: change them in place. Only in
        `build`."""
        for name, thing in things.items():
            self._runtime.torch_state().track(name, thing)

    def optimizer(self, parameters: Iterable[Any], name: str = "optimizer",
                  section: str = "optimizer") -> Any:
        """The torch optimiser that a section of the configuration asks for ("optimizer",
        "critic.optimizer"), tracked under `name`. Its learning rate is set before each stage, to
        the one in force. Only in `build`, after `track` of the parameters."""
        return self._runtime.torch_state().make_optimizer(parameters, name, section)
