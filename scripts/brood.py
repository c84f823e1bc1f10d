"""The package brood (python/brood) for those who have this folder on PYTHONPATH: `import brood` is
the same there as after `pip install`."""
import importlib.util
import pathlib
import sys

_folder = pathlib.Path(__file__).resolve().parent / "python" / "brood"
_spec = importlib.util.spec_from_file_location("brood", _folder / "__init__.py",
                                               submodule_search_locations=[str(_folder)])
# In place of this module: what imports brood gets what sys.modules has.
sys.modules["brood"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["brood"])
