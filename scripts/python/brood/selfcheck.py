"""stub"""
from __future__ import annotations
from typing import Any
from .protocol import Body
from .runtime import Runtime


class SelfCheck:
    def __init__(self, runtime: Runtime):
        self._runtime = runtime

    def handle(self, method: str, body: Body) -> dict[str, Any]:
        return self._runtime.handle(method, body)
