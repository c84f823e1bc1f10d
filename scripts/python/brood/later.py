"""Modules that are imported when they are first used, so that what does not need them works
without."""
from __future__ import annotations

import importlib
from typing import Any

from .errors import Error
from .startup import message_of


class Later:
    """Stands for a module. Error if it is missing, with what to install."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            return getattr(importlib.import_module(self._name), attribute)
        except ModuleNotFoundError as e:
            raise Error(message_of(e)) from None
