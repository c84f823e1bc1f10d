"""Everything we write, read and written again by Google's leveldb, whose tables TensorFlow's
`.index` files are: the bytes are the same, and every checksum holds.

The two readers are small C++ programs of the developers' folder. They need libleveldb-dev;
without it, or without that folder, nothing is compared."""
import os
import pathlib
import subprocess

import harness

GOLDEN = harness.BUILD / "tests" / "golden"


def tools(w):
    """Compiled: the paths of tablecopy and ckptdump."""
    folder = pathlib.Path(os.environ.get("BROOD_SHARED_DIR", ""), "tools")
    if not (folder / "tablecopy.cc").is_file():
        raise harness.Skip("the programs that use leveldb are not here")
    made = []
    for name in ("tablecopy", "ckptdump"):
        made.append(w.path / name)
        try:
            subprocess.run(["c++", "-O1", "-std=c++17", folder / f"{name}.cc", "-o",
                            made[-1], "-lleveldb"], check=True, capture_output=True)
        except (subprocess.CalledProcessError, FileNotFoundError) as e:
            raise harness.Skip("no C++ compiler with libleveldb-dev") from e
    return made


def check(w, folder, at_least):
    tablecopy, ckptdump = tools(w)
    indexes = sorted(p for p in pathlib.Path(folder).rglob("*")
                     if p.is_file() and p.name.endswith(".index"))
    assert len(indexes) >= at_least, indexes
    for index in indexes:
        copy = subprocess.run([tablecopy, index, w.path / "copy"], capture_output=True,
                              text=True)
        assert copy.returncode == 0 and "IDENTICAL" in copy.stdout, (index, copy)
        dump = subprocess.run([ckptdump, str(index)[:-len(".index")]],
                              capture_output=True, text=True)
        assert dump.returncode == 0, (index, dump.stdout[-2000:], dump.stderr)


def test_a_run_s_checkpoints(w):
    tools(w)
    w.brood("run", w.small(steps=1200, evaluate=0, checkpoint=400))
    check(w, w.runs, 3 * 3)


def test_a_saver_s_checkpoints(w):
    tools(w)
    saved = w.path / "saved"
    saved.mkdir()
    subprocess.run([GOLDEN / "train_regression", saved, "adam"], check=True)
    check(w, saved, 2)


def test_bundles_of_every_kind(w):
    tools(w)
    bundles = w.path / "bundles"
    bundles.mkdir()
    subprocess.run([GOLDEN / "write_bundles", bundles], check=True)
    check(w, bundles, 5)


def test_tensorflow_s_own(w):
    """That the readers can tell at all: files that TensorFlow wrote."""
    tools(w)
    check(w, pathlib.Path(os.environ["BROOD_SHARED_DIR"], "data", "tf-checkpoints"), 9)


if __name__ == "__main__":
    harness.main()
