"""What is torch's in the block: parameters, buffers, and the state of optimisers.

Tracked tensors stay the same objects, with their memory in the block; so they are changed in
place, as optimisers, copy_, lerp_ and load_state_dict do. On a GPU the block has a copy of them,
made after each request that writes. Works with torch 1.13 and later;
torch is what the agent has imported, this module does not.

Optimisers  create their state at their first step. Here they make it in `build`, in a step
            with zero gradients on copies of the parameters, and it begins as zeros. Numbers of
            Python among it (the steps of RMSprop in torch 1) have variables of their own, read
            before each stage and stored after those that write. Gradients are dropped before.
Names       "agent_0/q/0/weight" for track(q=nn.Sequential(...)), and of the state of
            track(opt=...) "agent_0/opt/q/0/weight/exp_avg".
"""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Container, Iterable, Iterator, Sequence

import numpy as np

from . import devices
from .arrays import Array
from .block import Block, Variable
from .errors import Error
from .settings import Section, Values

_DEPTH = 4  # of containers in attributes, when looking for modules


def torch_module() -> Any:
    """torch, if the agent has imported it; otherwise None."""
    return sys.modules.get("torch")


@dataclass(frozen=True)
class Place:
    """Where a tracked tensor lives. there: its memory, that of `block`, a view of the variable's,
    or, on a device, another one."""
    variable: Variable
    block: Any
    there: Any


class TorchState:
    """The tensors of one agent in its block, or with copies of them in it (devices.py)."""

    def __init__(self, agent: str, block: Block, settings: Section, values: Values, device: str):
        self._torch = torch_module()
        self._device, self._copies = device, devices.copies_block(device)
        self._agent, self._block = agent, block
        self._settings, self._values = settings, values
        self._placed: list[tuple[Place, Any]] = []
        self._names: dict[int, str] = {}  # of tracked tensors, by id; _placed keeps them alive
        self._slots: list[tuple[dict[str, Any], str, Place]] = []  # tensors of a state
        self._numbers: list[tuple[dict[str, Any], str, Array]] = []  # Python's of a state
        self._optimizers: list[Any] = []
        self._rates: list[tuple[Any, str]] = []  # optimisers with a rate of the configuration

    # ---- build ----

    def track(self, name: str, thing: Any) -> None:
        """Moves a module, a tensor or an optimiser's state into the block. Errors: "argument",
        "unsupported"."""
        nn, optim = self._torch.nn, self._torch.optim
        if isinstance(thing, nn.Module):
            for path, t in [*thing.named_parameters(), *thing.named_buffers()]:
                self._move(f"{name}/{path.replace('.', '/')}", t)
        elif isinstance(thing, optim.Optimizer):
            self._track_optimizer(name, thing)
        elif isinstance(thing, self._torch.Tensor):
            self._move(name, thing)
        else:
            hint = "; for an array: self.variable(name, value)" \
                if isinstance(thing, np.ndarray) else ""
            raise Error(f"track({name}=...): a module, a tensor or an optimiser expected, found "
                        f"{type(thing).__name__}{hint}", code="argument")

    def _move(self, path: str, t: Any) -> None:
        """The tensor's values move; shared tensors once."""
        if id(t) in self._names:
            return
        uninitialized = getattr(self._torch.nn.parameter, "UninitializedTensorMixin", None)
        if uninitialized is not None and isinstance(t, uninitialized):
            raise Error(f"track: {path} has no size yet: use a module that is not lazy",
                        code="unsupported")
        place = self._place(path, t.detach(), self._device)
        t.data = place.there
        self._placed.append((place, t))
        self._names[id(t)] = path

    def _place(self, path: str, value: Any, device: str) -> Place:
        """A variable with the values of a tensor at first, and a tensor of that device with its
        memory, or a copy of it."""
        if str(value.device) not in (devices.CPU, self._device) or \
                value.layout != self._torch.strided:
            raise Error(f"track: {path} is on {value.device} ({value.layout}): only dense "
                        f"tensors of {self._device} can be tracked (the key `device`)",
                        code="unsupported")
        value = value.cpu().contiguous()
        is_bfloat16 = value.dtype == self._torch.bfloat16
        if is_bfloat16:
            value = value.view(self._torch.int16)
        variable = self._block.add(f"{self._agent}/{path}", value.numpy(), bfloat16=is_bfloat16)
        block = self._torch.from_numpy(variable.array)
        if is_bfloat16:
            block = block.view(self._torch.bfloat16)
        if device == devices.CPU and not self._copies:
            return Place(variable, block, block)
        return Place(variable, block, block.to(device, copy=True))

    def _track_optimizer(self, name: str, opt: Any) -> None:
        optim = self._torch.optim
        if type(opt) not in (optim.Adam, optim.AdamW, optim.SGD, optim.RMSprop):
            raise Error(f"track({name}=...): {type(opt).__name__} is not known here: Adam, AdamW, "
                        "SGD or RMSprop expected", code="unsupported")
        if any(g.get("dampening") for g in opt.param_groups):
            raise Error(f"track({name}=...): SGD with dampening treats its first step in another "
                        "way, which is no state: use dampening=0", code="unsupported")
        parameters = [p for g in opt.param_groups for p in g["params"]]
        for p in parameters:
            if id(p) not in self._names:
                raise Error(f"track({name}=...): an optimiser's parameters are tracked before it: "
                            "self.track(net=...) first", code="state")
        self._optimizers.append(opt)
        self._first_step(opt, parameters)
        for p in parameters:
            self._place_state(f"{name}/{self._names[id(p)]}", opt.state[p])

    def _first_step(self, opt: Any, parameters: Sequence[Any]) -> None:
        """On copies of the parameters: it is for the state that it makes."""
        data = [p.data for p in parameters]
        for p in parameters:
            p.data = p.data.clone()
            p.grad = self._torch.zeros_like(p)
        try:
            opt.step()
        finally:
            for p, d in zip(parameters, data):
                p.data, p.grad = d, None

    def _place_state(self, path: str, state: dict[str, Any]) -> None:
        for slot, value in state.items():
            if isinstance(value, self._torch.Tensor):
                # the steps of Adam are on the CPU also for parameters of a GPU
                place = self._place(f"{path}/{slot}", self._torch.zeros_like(value),
                                    str(value.device))
                state[slot] = place.there
                self._slots.append((state, slot, place))
            elif isinstance(value, (int, float)):
                zero = np.int64(0) if isinstance(value, int) else np.float64(0)
                variable = self._block.add(f"{self._agent}/{path}/{slot}", zero)
                self._numbers.append((state, slot, variable.array))
            elif value is not None:
                raise Error(f"track: the optimiser's {slot} is a {type(value).__name__}, which "
                            "cannot be in the block", code="unsupported")

    def make_optimizer(self, parameters: Iterable[Any], name: str, section: str) -> Any:
        """Of a section of the configuration, or of "optimizer" if there is no such section."""
        where = section if isinstance(self._settings.find(section), dict) else "optimizer"
        o = self._settings.find(where) or {}
        rate = f"{where}.learning_rate"
        lr, kind, optim = self._values.value(rate, 0), o.get("type"), self._torch.optim
        params = list(parameters)
        if kind == "adam":
            opt = optim.Adam(params, lr, (o["beta1"], o["beta2"]), o["epsilon"])
        elif kind == "sgd":
            opt = optim.SGD(params, lr)
        elif kind == "momentum":
            opt = optim.SGD(params, lr, o["momentum"])
        elif kind == "rmsprop":
            opt = optim.RMSprop(params, lr, o["decay"], o["epsilon"], momentum=o["momentum"])
        else:
            raise Error(f"{where}.type: {kind}: torch has adam, sgd, momentum, rmsprop",
                        code="config", key=f"{where}.type")
        self.track(name, opt)
        opt.brood_rate = rate
        self._rates.append((opt, rate))
        return opt

    # ---- requests ----

    def begin_stage(self, step: int) -> None:
        """What is not a tensor is read from the block, gradients that an earlier request left
        are dropped, and learning rates are those in force."""
        for state, slot, place in self._numbers:
            state[slot] = place.item()
        for _, t in self._placed:
            if t.grad is not None:
                t.grad = None
        for opt, rate in self._rates:
            lr = self._values.value(rate, step)
            for g in opt.param_groups:
                g["lr"] = lr

    def end_writing(self) -> None:
        """After it. Error("state") if a tensor was replaced."""
        for state, slot, place in self._numbers:
            place[...] = state[slot]
        self.check_places()
        self.copy_to_block()

    def _places(self) -> Iterator[Place]:
        yield from (place for place, _ in self._placed)
        yield from (place for _, _, place in self._slots)

    def copy_to_block(self) -> None:
        """What lives on a device."""
        for place in self._places() if self._copies else ():
            if place.there is not place.block:
                place.block.copy_(place.there)

    def take_block(self) -> None:
        """The block has other values."""
        with self._torch.no_grad():
            for place in self._places() if self._copies else ():
                if place.there is not place.block:
                    place.there.copy_(place.block)

    def check_places(self) -> None:
        for place, t in self._placed:
            self._check_place(place, t)
        for state, slot, place in self._slots:
            self._check_place(place, state.get(slot))

    @staticmethod
    def _check_place(place: Place, t: Any) -> None:
        if place.variable.n_bytes and (t is None or t.data_ptr() != place.there.data_ptr()):
            raise Error(f"{place.variable.name} was replaced by another tensor, which is not in the "
                        "block: change it in place (copy_, mul_, load_state_dict)", code="state")

    def check_tracked(self, agent: Any) -> None:
        """After `build`: see the function of this name."""
        check_tracked(agent, self._names, self._optimizers)


# ---- what is not tracked ----


def check_tracked(agent: Any, tracked: Container[int] = (), optimizers: Sequence[Any] = ()
                  ) -> None:
    """Error("state") for parameters and optimisers in the agent's attributes that are not
    tracked: they would be lost with the process. tracked: ids of tensors."""
    for path, thing in things_in(agent):
        name = path.partition(".")[2].partition("[")[0]
        lost = f"which would be lost with the process: self.track({name}=self.{name})"
        _check_thing(path, thing, lost, tracked, optimizers)


def _check_thing(path: str, thing: Any, lost: str, tracked: Container[int],
                 optimizers: Sequence[Any]) -> None:
    torch = torch_module()
    if isinstance(thing, torch.nn.Module):
        for kind, found in (("parameter", thing.named_parameters()),
                            ("buffer", thing.named_buffers())):
            for inner, t in found:
                if id(t) not in tracked:
                    raise Error(f"{path} has a {kind} {inner} outside of the block, {lost}",
                                code="state")
    elif isinstance(thing, torch.nn.Parameter):
        if id(thing) not in tracked:
            raise Error(f"{path} is a parameter outside of the block, {lost}", code="state")
    elif isinstance(thing, torch.optim.Optimizer):
        if not any(thing is o for o in optimizers):
            raise Error(f"{path} is an optimiser with its state outside of the block, {lost}",
                        code="state")
    elif type(thing).__module__ == "torch.optim.lr_scheduler":
        raise Error(f"{path} is a {type(thing).__name__}, whose state would be lost with the "
                    "process: write a schedule in the configuration, as in optimizer: "
                    "{learning_rate: 0.001 to 0 over 100000}", code="state")


def things_in(agent: Any) -> Iterator[tuple[str, Any]]:
    """("self.nets[0]", value) of all attributes, and of the lists, tuples and dicts in them."""
    def walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        yield path, value
        if depth == 0:
            return
        if isinstance(value, dict):
            for k, v in value.items():
                yield from walk(f"{path}[{k!r}]", v, depth - 1)
        elif isinstance(value, (list, tuple)) and len(value) <= 1000:
            for i, v in enumerate(value):
                yield from walk(f"{path}[{i}]", v, depth - 1)

    for name, value in vars(agent).items():
        if name not in ("_runtime", "settings", "players", "me"):
            yield from walk(f"self.{name}", value, _DEPTH)
