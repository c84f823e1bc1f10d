"""Compares the attributes of two objects of a class: what the used one has kept."""
from __future__ import annotations

import random
import sys
import types
from typing import Any, Callable, Iterator

import numpy as np

from .errors import one_line

_DEPTH, _MOST = 6, 1000
_SKIPPED = frozenset(("_runtime", "settings", "players", "me"))
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType)

Difference = tuple[str, str, str]  # a path such as "self.n", and both values, shortened


def differences(used: Any, fresh: Any, in_block: Callable[[int], bool]) -> Iterator[Difference]:
    """Of the attributes, and what is in them: lists, dicts, arrays, tensors, modules, optimisers,
    generators, objects. in_block: whether an address is in the used object's block; what is
    there is not compared."""
    seen: set[int] = set()
    for name in sorted({*vars(used), *vars(fresh)} - _SKIPPED):
        yield from _compare(f"self.{name}", vars(used).get(name), vars(fresh).get(name), in_block,
                            seen, _DEPTH)


def _short(x: Any) -> str:
    return one_line(repr(x), 60)


def _compare(path: str, a: Any, b: Any, in_block: Callable[[int], bool], seen: set[int],
             depth: int) -> Iterator[Difference]:
    if a is b or depth == 0 or isinstance(a, _OPAQUE):
        return
    if type(a) is not type(b):
        yield path, _short(a), _short(b)
        return
    if id(a) in seen:
        return
    torch: Any = sys.modules.get("torch")
    if a is None or isinstance(a, (bool, int, float, complex, str, bytes)):
        if a != b and not (a != a and b != b):
            yield path, _short(a), _short(b)
        return
    seen.add(id(a))
    inner: list[tuple[str, Any, Any]] = []
    if isinstance(a, np.ndarray):
        if not in_block(a.ctypes.data) and (a.shape != b.shape or a.tobytes() != b.tobytes()):
            yield path, _short(a), _short(b)
    elif isinstance(a, np.random.Generator):
        if _state(a) != _state(b):
            yield path, "a generator that has drawn", "new"
    elif isinstance(a, random.Random):
        if a.getstate() != b.getstate():
            yield path, "a generator that has drawn", "new"
    elif torch is not None and isinstance(a, torch.Generator):
        if not torch.equal(a.get_state(), b.get_state()):
            yield path, "a generator that has drawn", "new"
    elif torch is not None and isinstance(a, torch.Tensor):
        if not in_block(a.data_ptr()) and not _equal(torch, a, b):
            yield path, _short(a), _short(b)
    elif isinstance(a, dict):
        if len(a) != len(b):
            yield f"len({path})", str(len(a)), str(len(b))
        inner = [(f"{path}[{k!r}]", a[k], b[k]) for k in list(a)[:_MOST] if k in b]
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            yield f"len({path})", str(len(a)), str(len(b))
        inner = [(f"{path}[{i}]", x, y) for i, (x, y) in enumerate(zip(a[:_MOST], b))]
    elif isinstance(a, (set, frozenset)):
        if a != b:
            yield path, _short(a), _short(b)
    elif torch is not None and isinstance(a, torch.nn.Module):
        inner = _of_module(path, a, b)
    elif torch is not None and isinstance(a, torch.optim.Optimizer):
        inner = _of_optimizer(path, a, b)
    elif hasattr(a, "__dict__"):
        inner = [(f"{path}.{k}", v, vars(b).get(k)) for k, v in list(vars(a).items())[:_MOST]]
    for p, x, y in inner:
        yield from _compare(p, x, y, in_block, seen, depth - 1)


def _state(g: np.random.Generator) -> str:
    return repr(g.bit_generator.state)


def _equal(torch: Any, a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or a.layout != torch.strided:
        return bool(a.shape == b.shape and a.dtype == b.dtype)
    a, b = a.detach(), b.detach()
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _of_optimizer(path: str, a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Its numbers, and the state of each parameter. A learning rate of the configuration is set
    before each stage, and is not compared."""
    skipped = {"params", "lr"} if getattr(a, "brood_rate", "") else {"params"}
    found: list[tuple[str, Any, Any]] = []
    for i, (g, h) in enumerate(zip(a.param_groups, b.param_groups)):
        where = f"{path}.param_groups[{i}]"
        found += [(f"{where}[{k!r}]", v, h.get(k)) for k, v in g.items() if k not in skipped]
        found += [(f"{path}.state of parameter {j}", dict(a.state.get(p, {})),
                   dict(b.state.get(q, {})))
                  for j, (p, q) in enumerate(zip(g["params"], h["params"]))]
    return found


def _of_module(path: str, a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Its parameters and buffers, and the plain attributes of all modules in it."""
    found: list[tuple[str, Any, Any]] = []
    others = dict(b.named_modules())
    for inner, m in a.named_modules():
        other = others.get(inner)
        where = f"{path}.{inner}" if inner else path
        if other is None:
            continue
        tensors = [*m._parameters.items(), *m._buffers.items()]
        theirs = {**other._parameters, **other._buffers}
        found += [(f"{where}.{k}", v, theirs.get(k)) for k, v in tensors]
        found += [(f"{where}.{k}", v, vars(other).get(k)) for k, v in vars(m).items()
                  if not k.startswith("_")]
    return found
