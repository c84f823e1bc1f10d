"""Where TensorFlow is, for the tests that compare with it."""
import os
import pathlib
import sys

SKIPPED = 77


def python_with_tensorflow():
    """The Python of $BROOD_TENSORFLOW_PYTHON, or of the virtual environment `tensorflow` of the
    build folder; None if there is neither."""
    build = os.environ.get("BROOD_BUILD_DIR", "build")
    for python in (os.environ.get("BROOD_TENSORFLOW_PYTHON"),
                   str(pathlib.Path(build) / "tensorflow" / "bin" / "python3")):
        if python and pathlib.Path(python).exists():
            return python
    return None


def load_tensorflow():
    """Imports TensorFlow 1's interface, without optimised kernels that round otherwise. Where
    this Python has none, the program goes on as the one that has; without one it ends as
    skipped."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="",
                      TF_ENABLE_ONEDNN_OPTS="0")
    try:
        import tensorflow
        return tensorflow.compat.v1
    except ImportError:
        pass
    python = python_with_tensorflow()
    if python and "BROOD_WITH_TENSORFLOW" not in os.environ:
        os.environ["BROOD_WITH_TENSORFLOW"] = "1"
        os.execv(python, [python, *sys.argv])
    print("skipped: no Python with TensorFlow (BROOD_TENSORFLOW_PYTHON)")
    sys.exit(SKIPPED)
