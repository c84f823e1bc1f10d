"""The agents of an environment, as `configure` tells them."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import Error
from .protocol import Body


@dataclass(frozen=True)
class Space:
    """What an agent's action can be.

    kind      "discrete": one-hot heads side by side, "box": numbers, or "hybrid": both, the
              numbers behind the heads (only for agents that declare hybrid = True)
    width     U, the numbers of an action
    heads     of a discrete or hybrid action: the choices of each head
    low, high of the numbers of a box or a hybrid action
    masked    requests of `act` have ctx.allowed, rows have "allowed" and "next_allowed"
    """
    kind: str
    width: int
    heads: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 0.0
    masked: bool = False


@dataclass(frozen=True)
class ImagePart:
    """The part of an observation that is an image, beside other numbers (a Dict or Tuple).

    shape     (height, width, channels)
    at        the numbers of the observation before it
    uint8     its values are 0 .. 255, also where observations are floats

    With env.stack, each of the observations side by side has one.
    """
    shape: tuple[int, ...]
    at: int
    uint8: bool = False

    def split(self, obs: Any, stack: int = 1) -> tuple[Any, Any]:
        """Observations (..., O), of NumPy or torch, as images (..., height, width, stack channels)
        and the numbers beside them (..., R); stack: the player's."""
        rows, (height, width, channels) = obs.shape[:-1], self.shape
        each = obs.reshape(*rows, stack, -1)
        end = self.at + height * width * channels
        beside = [i for i in range(each.shape[-1]) if not self.at <= i < end]
        images = each[..., self.at:end].reshape(*rows, stack, height, width, channels)
        images = images.swapaxes(-4, -3).swapaxes(-3, -2)
        return (images.reshape(*rows, height, width, stack * channels),
                each[..., beside].reshape(*rows, stack * len(beside)))


@dataclass(frozen=True)
class Player:
    """An agent of the environment.

    obs       O, the numbers of its observation
    stack     how many observations that are: the last ones, the newest at the end (env.stack)
    action    what its action can be
    uint8     its observations are bytes; `act` and batches give them as float32, 0 .. 255
    image     (height, width, channels) if the observation is one, flattened; otherwise ()
    image_part  of an image beside other numbers; None if there is none
    other     it is in another group of learners, or does not learn
    """
    name: str
    team: str
    obs: int
    action: Space
    uint8: bool = False
    image: tuple[int, ...] = ()
    other: bool = False
    stack: int = 1
    image_part: ImagePart | None = None


def player_of(m: Body) -> Player:
    try:
        a = m["action"]
        space = Space(str(a["kind"]), int(a["width"]), tuple(map(int, a.get("heads", ()))),
                      float(a.get("low", 0.0)), float(a.get("high", 0.0)),
                      bool(a.get("masked", False)))
        return Player(str(m["name"]), str(m.get("team", "")), int(m["obs"]), space,
                      bool(m.get("uint8", False)), tuple(map(int, m.get("image", ()))),
                      bool(m.get("other", False)), int(m.get("stack", 1)),
                      None if (part := m.get("image_part")) is None else
                      ImagePart(tuple(map(int, part["shape"])), int(part["at"]),
                                bool(part.get("uint8", False))))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Error("agents: a name, observations and an action each expected",
                    code="protocol") from None
