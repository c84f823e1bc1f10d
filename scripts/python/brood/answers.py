"""Checks what an agent's methods return, and gives it the form that messages have."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from .agent import Act
from .arrays import Array
from .errors import Error
from .players import Space
from .protocol import pack_tensor


def array_of(x: Any) -> Array:
    """Of NumPy's or torch's, or of numbers."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()
    return np.asarray(x)


def floats(x: Any) -> Array:
    """float32, in one piece."""
    return np.ascontiguousarray(array_of(x), np.float32)


def checked_act(answer: Any, n: int, space: Space, carry: int, columns: Mapping[str, int],
                allowed: Array | None) -> Act:
    """The answer of `act` for n copies: actions float32 (n, U), carry (n, H), columns (n, X),
    those of `columns` alone. Errors: "shape", "argument", "nonfinite"."""
    if not isinstance(answer, Act):
        answer = Act(answer)
    found = Act(actions_of(answer.actions, n, space, allowed))
    if carry:
        if answer.carry is None:
            raise Error(f"act must return brood.Act(..., carry=...) of shape ({n}, {carry})",
                        code="shape")
        found.carry = _shaped(answer.carry, n, carry, "the carry")
    missing = [k for k in columns if k not in answer.columns]
    if missing:
        raise Error(f"act must return brood.Act(..., columns={{'{missing[0]}': ...}}), which the "
                    "class declares", code="shape")
    found.columns = {k: _shaped(answer.columns[k], n, x, f"column {k}")
                     for k, x in columns.items()}
    return found


def _shaped(value: Any, n: int, width: int, what: str) -> Array:
    x = floats(value)
    if x.shape == (n,) and width == 1:
        x = x[:, None]
    if x.shape != (n, width):
        raise Error(f"act returned {what} of shape {x.shape}, expected ({n}, {width})",
                    code="shape")
    return x


def actions_of(chosen: Any, n: int, space: Space, allowed: Array | None) -> Array:
    """float32 (n, U) of choices (n,) or (n, heads), or of numbers (n, U)."""
    x = array_of(chosen)
    if space.kind != "discrete" or x.dtype.kind not in "iu":
        x = _shaped(x, n, space.width, "actions")
        if not np.isfinite(x).all():
            raise Error("act returned an action that is not finite", code="nonfinite")
        return x
    heads = len(space.heads)
    if x.shape != (n, heads) and not (heads == 1 and x.shape == (n,)):
        raise Error(f"act returned choices of shape {x.shape}, expected ({n}, {heads})"
                    f"{' or (' + str(n) + ',)' if heads == 1 else ''}", code="shape")
    x = x.reshape(n, heads).astype(np.int64)
    out, at, rows = np.zeros((n, space.width), np.float32), 0, np.arange(n)
    for h, size in enumerate(space.heads):
        outside = (x[:, h] < 0) | (x[:, h] >= size)
        if outside.any():
            raise Error(f"act chose {int(x[outside.argmax(), h])}; the choices are 0 .. "
                        f"{size - 1}", code="argument")
        if allowed is not None:
            may = allowed[:, at:at + size]
            bad = may.any(1) & ~may[rows, x[:, h]]
            if bad.any():
                raise Error(f"act chose {int(x[bad.argmax(), h])}, which ctx.allowed excludes",
                            code="argument")
        out[rows, at + x[:, h]] = 1
        at += size
    return out


def stage_answer(results: Sequence[Mapping[str, Any]], stage: str, n_rows: int, mine: int
                 ) -> dict[str, Any]:
    """The answer of a stage from the results for each group of rows: outputs (G, B, ...),
    scalars, those of group `mine`, priorities (G, B). Error("shape")."""
    outputs: dict[str, Any] = {}
    scalars: dict[str, float] = {}
    answer: dict[str, Any] = {"outputs": outputs, "scalars": scalars}
    for key in results[0]:
        values = [array_of(r.get(key, np.nan)) for r in results]
        if values[0].ndim == 0 and key != "priorities":
            scalars[key] = float(values[mine])
            continue
        if any(v.ndim == 0 or len(v) != n_rows or v.shape != values[0].shape for v in values):
            raise Error(f"{stage} returned {key} of shape {values[0].shape}; ({n_rows}, ...) "
                        "expected", code="shape")
        stacked = np.stack([floats(v) for v in values])
        if key != "priorities":
            outputs[key] = pack_tensor(stacked)
        elif stacked.size != len(values) * n_rows:
            raise Error(f"{stage} returned priorities of shape {values[0].shape}; ({n_rows},) "
                        "expected", code="shape")
        else:
            answer[key] = pack_tensor(stacked.reshape(len(values), n_rows))
    return answer
