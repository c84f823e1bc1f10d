"""What the bits of an agent depend on, beside its variables and requests: a line each."""
from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from . import devices
from .errors import Error

MAX_FILES = 512
_LIBRARIES = ("numpy", "torch")
_HERE = os.path.dirname(os.path.abspath(__file__))


def digest(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


def own_files() -> list[tuple[str, str]]:
    """(name, path) of the program and of what it has imported below its folder."""
    script = os.path.abspath(sys.argv[0])
    folder = os.path.dirname(script)
    package = (os.path.join(package_folder(), "sitecustomize.py"), _HERE + os.sep)
    paths = {script}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            paths.add(os.path.abspath(path))
    return sorted((os.path.relpath(p, folder), p) for p in paths
                  if p.startswith(folder + os.sep) and "-packages" + os.sep not in p
                  and not p.startswith(package) and os.path.isfile(p))[:MAX_FILES]


def package_folder() -> str:
    return os.path.dirname(_HERE)


def package_files() -> list[str]:
    """The names of this package's files, below the folder that is on the path."""
    found = ["sitecustomize.py"] if os.path.exists(
        os.path.join(package_folder(), "sitecustomize.py")) else []
    for folder, folders, names in os.walk(_HERE):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        found += [os.path.relpath(os.path.join(folder, n), package_folder())
                  for n in names if n.endswith(".py")]
    return sorted(found)


def package_digest() -> str:
    folder = package_folder()
    whole = "".join(f"{n} {digest(os.path.join(folder, n))}\n" for n in package_files())
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def cpu_features() -> str:
    """A digest of the processor's features: libraries choose their loops by them."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith(("flags", "Features")):
                    return hashlib.sha256(line.encode()).hexdigest()[:16]
    except OSError:
        pass
    return platform.machine()


def check_same(expected: Sequence[Any], device: str) -> None:
    """Refuses to be another program than the run began with. Error("state")."""
    known = {str(line) for line in expected}
    before = {line.rpartition(" ")[0]: line for line in known}
    for line in identity_on(device) if known else []:
        if line not in known:
            was = before.get(line.rpartition(" ")[0], "nothing of it")
            raise Error(f"this process is not what the run began with: it has '{line}', the run "
                        f"has '{was}'", code="state")


def identity_on(device: str) -> list[str]:
    """Of an agent that computes on that device."""
    return [*identity(), *devices.identity(device)]


@functools.cache
def identity() -> list[str]:
    """Read once: what a process has imported does not follow its files."""
    libraries = [f"{name} {getattr(sys.modules[name], '__version__', '?')}"
                 for name in _LIBRARIES if name in sys.modules]
    return [*(f"{name} {digest(path)}" for name, path in own_files()),
            f"brood's package {package_digest()}", f"python {platform.python_version()}",
            *libraries, f"processor {cpu_features()}"]
