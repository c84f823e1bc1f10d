"""Imported by Python at its start, where this folder is on PYTHONPATH: in programs that
brood-agent starts. An error before the program has imported brood, such as a missing torch, is
then the answer to its first request, instead of an exit code."""
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_next():
    """The one that this file hides, if there is one."""
    places = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _watch():
    spec = importlib.util.spec_from_file_location(
        "brood_startup", os.path.join(_HERE, "brood", "startup.py"))
    startup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(startup)
    startup.watch()
    if startup.is_program():  # it can write nowhere, which tempfile finds out by trying
        import tempfile
        tempfile.tempdir = "/tmp"


_watch()
_run_next()
