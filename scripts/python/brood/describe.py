"""The answer of `describe`: what an agent's class says of itself, without building anything."""
from __future__ import annotations

import inspect
import json
import os
import re
from typing import Any

from . import devices
from .errors import Error, one_line
from .identity import identity_on, own_files, package_files, package_folder
from .protocol import VERSION
from .settings import MAX_TEXT_BYTES, declared, live_keys
from .stages import Rows, stages_of

_ALGORITHM = re.compile(r"[A-Za-z0-9_-]+$")
_SCALAR = re.compile(r"[A-Za-z0-9_./-]{1,48}\Z")
MAX_SCALARS = 32


def _scalar(said: Any) -> tuple[str, str] | None:
    """Meaning and unit of a scalar, from "meaning" or ("meaning", "unit"). None: neither."""
    parts = (said, "") if isinstance(said, str) else said
    if not isinstance(parts, tuple) or len(parts) != 2 or not all(
            isinstance(x, str) and x.isprintable() and len(x.encode()) <= MAX_TEXT_BYTES
            for x in parts):
        return None
    return parts


def check_class(cls: type) -> None:
    """Refuses class attributes that are not what they must be. Error("argument")."""
    def refuse(attribute: str, expected: str) -> None:
        raise Error(f"{cls.__name__}.{attribute}: {expected} expected, found "
                    f"{getattr(cls, attribute)!r}", code="argument")

    a: Any = cls
    if not isinstance(a.rows, Rows):
        refuse("rows", "brood.transitions(n), brood.episodes() or brood.window()")
    if isinstance(a.reads, str) or not all(isinstance(x, str) for x in a.reads):
        refuse("reads", "names of columns")
    if not isinstance(a.columns, dict) or not all(
            isinstance(k, str) and isinstance(n, int) and n >= 1 for k, n in a.columns.items()):
        refuse("columns", "{name: width}")
    if not isinstance(a.defaults, dict) or not all(
            isinstance(k, str) and isinstance(v, (bool, int, float, str, list, type(None)))
            for k, v in a.defaults.items()):
        refuse("defaults", "{key: value}")
    if not isinstance(a.hybrid, bool):
        refuse("hybrid", "True or False")
    if not isinstance(a.carry, int) or a.carry < 0:
        refuse("carry", "a width")
    if not isinstance(a.scalars, dict) or len(a.scalars) > MAX_SCALARS or not all(
            isinstance(k, str) and _SCALAR.match(k) and _scalar(x) for k, x in a.scalars.items()):
        refuse("scalars", f"at most {MAX_SCALARS} of {{name: meaning}} or "
               "{name: (meaning, unit)}, names of letters, digits and _.-/,")


def defaults_of(cls: type) -> dict[str, str]:
    """As texts of the configuration's language, YAML."""
    found: Any = getattr(cls, "defaults")
    return {k: v if isinstance(v, str) else "none" if v is None else json.dumps(v)
            for k, v in found.items()}


def summary_of(cls: type) -> str:
    """The first line of the class's own docstring."""
    text = inspect.cleandoc(cls.__doc__ or "") if "__doc__" in vars(cls) else ""
    line = one_line(text.split("\n")[0], 240) if text else ""
    while len(line.encode()) > MAX_TEXT_BYTES:
        line = line[:-1]
    return line


def source_of(cls: type) -> str:
    """The name of the file that defines the class, or ""."""
    try:
        return os.path.basename(inspect.getfile(cls))
    except (TypeError, OSError):
        return ""


def describe(cls: type, device: str = devices.CPU) -> dict[str, Any]:
    """Errors: "argument" for a class that is not as it must be."""
    check_class(cls)
    a: Any = cls
    if not _ALGORITHM.match(cls.__name__):
        raise Error(f"class {cls.__name__}: letters, digits, _ and - expected", code="argument")
    own, stages = declared(cls), stages_of(cls)
    live = live_keys(cls, own)
    scalars = [{"name": k, "meaning": x[0], "unit": x[1]}
               for k, x in ((k, _scalar(said)) for k, said in a.scalars.items()) if x]
    return {"protocol": VERSION, "files": [path for _, path in own_files()],
            "package": {"folder": package_folder(), "files": package_files()}, "algorithms": [{
        "name": cls.__name__, "summary": summary_of(cls), "use": "", "source": source_of(cls),
        "stages": " > ".join(s.text() for s in stages),
        "settings": [s.described(k in live) for k, s in own.items()],
        "defaults": defaults_of(cls), "rows": a.rows.kind,
        "is": ["prepares", *([] if stages else ["fixed"]), *(["hybrid"] if a.hybrid else [])],
        **({"scalars": scalars} if scalars else {}),
        "identity": identity_on(device)}]}
