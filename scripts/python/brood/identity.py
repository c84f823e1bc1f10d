"""What the bits of an agent depend on, beside its variables and requests: a line each."""
from __future__ import annotations

import hashlib
import os
import platform
import sys

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
    paths = {script}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            paths.add(os.path.abspath(path))
    return sorted((os.path.relpath(p, folder), p) for p in paths
                  if p.startswith(folder + os.sep) and "-packages" + os.sep not in p
                  and not p.startswith(_HERE) and os.path.isfile(p))[:MAX_FILES]


def package_files() -> str:
    """One digest of this package."""
    names = sorted(n for n in os.listdir(_HERE) if n.endswith(".py"))
    return hashlib.sha256("".join(digest(os.path.join(_HERE, n)) for n in names).encode()
                          ).hexdigest()[:16]


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


def identity() -> list[str]:
    libraries = [f"{name} {getattr(sys.modules[name], '__version__', '?')}"
                 for name in _LIBRARIES if name in sys.modules]
    return [*(f"{name} {digest(path)}" for name, path in own_files()),
            f"brood's package {package_files()}", f"python {platform.python_version()}",
            *libraries, f"processor {cpu_features()}"]
