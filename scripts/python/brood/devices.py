"""The device that an agent computes on: the key `device` of its section, "cuda:0".

On a GPU torch's tensors live in its memory, and the block has a copy of what is tracked, made
after every request that writes (torch_state.py): it is what a process that replaces a killed one
begins with. Numbers of NumPy stay in the block.

Bits      on a GPU depend on its model, the driver, and the versions of CUDA and cuDNN, which are
          part of the agent's identity. Operations are deterministic, or errors: torch's own
          setting, cuDNN without its search for the fastest, cuBLAS with a workspace of its own.
Memory    a GPU without room ends the process with the code "try later".
BROOD_COPIES_BLOCK=1 in the agent's environment makes copies on the CPU as well, for tests of this
          on machines without a GPU.
"""
from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Mapping

from .errors import Error
from .protocol import Body

CPU = "cpu"


def device_of(body: Body) -> str:
    """What the params of `configure` or `describe` ask for."""
    program = body.get("program")
    return str(program.get("device", CPU)) if isinstance(program, Mapping) else CPU


def copies_block(device: str) -> bool:
    """Whether tracked tensors live outside of the block."""
    return device != CPU or os.environ.get("BROOD_COPIES_BLOCK") == "1"


def _number(device: str) -> int:
    return int(device.partition(":")[2])


def _torch(device: str) -> Any:
    """torch, if it can compute there. Error("config")."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        raise Error(f"device: {device}: the agent has not imported torch, which computes on it",
                    code="config", key="device")
    if not hasattr(torch, "set_default_device"):
        raise Error(f"device: {device}: torch {torch.__version__} is too old, expected 2.0 or "
                    "newer", code="config", key="device")
    if not torch.cuda.is_available() or _number(device) >= torch.cuda.device_count():
        raise Error(f"device: {device}: torch {torch.__version__} sees {torch.cuda.device_count()} "
                    "GPUs", code="config", key="device")
    return torch


def begin(device: str) -> None:
    """Before `build`: sets what makes a GPU deterministic. Error("config")."""
    if device == CPU:
        return
    torch = _torch(device)
    torch.cuda.set_device(device)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def identity(device: str) -> list[str]:
    """On what bits depend. Error("config")."""
    if device == CPU:
        return []
    torch = _torch(device)
    lines = [f"gpu {torch.cuda.get_device_name(device)}", f"cuda {torch.version.cuda}",
             f"cudnn {torch.backends.cudnn.version()}"]
    with contextlib.suppress(OSError):
        with open("/sys/module/nvidia/version", encoding="ascii", errors="replace") as f:
            lines.append(f"driver {f.read().strip()}")
    return lines


def seed(device: str, number: int) -> None:
    """The generator of the device, before each request: `begin` has looked whether it is there."""
    if device != CPU:
        sys.modules["torch"].cuda.default_generators[_number(device)].manual_seed(number)


def used_before_fork() -> bool:
    """Whether CUDA was touched, which no forked process can use then."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def default(device: str) -> contextlib.AbstractContextManager[Any]:
    """In which tensors without a device of their own are made on the agent's."""
    if device == CPU:
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[Any] = sys.modules["torch"].device(device)
    return found


def place(x: Any, device: str) -> Any:
    """An array of NumPy as a tensor of the device; on the CPU it has the array's memory."""
    t = sys.modules["torch"].from_numpy(x)
    return t if device == CPU else t.to(device)
