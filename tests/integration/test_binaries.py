"""What the executables link: the supervisor has no BLAS and loads Cairo only to draw,
the agent has OpenBLAS inside, serial."""
import subprocess

import harness


def libraries(path):
    return subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout


def symbols(path):
    return subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout


def test_supervisor_has_no_blas(_):
    for word in ("blas", "lapack", "gfortran"):
        assert word not in libraries(harness.BROOD).lower(), word
    for word in ("sgemm", "openblas"):
        assert word not in symbols(harness.BROOD).lower(), word


def test_cairo_is_in_the_module_that_draws_alone(_):
    for word in ("cairo", "freetype", "fontconfig", "cgif", "x11"):
        assert word not in libraries(harness.BROOD).lower(), word
    assert "libcairo" in libraries(harness.BROOD.with_name("brood-draw.so"))


def test_agent_has_serial_openblas_inside(_):
    text = libraries(harness.AGENT).lower()
    assert "blas" not in text and "libuv" not in text and "gomp" not in text, text
    assert "cblas_sgemm" in symbols(harness.AGENT)
    assert "blas_thread_init" not in symbols(harness.AGENT)


if __name__ == "__main__":
    harness.main()
