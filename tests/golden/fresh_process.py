#!/usr/bin/python3
"""A new process can train on from the saved files alone: it reads the graph from the .meta
file, and its variables end with the same bytes."""
import os
import shutil
import subprocess
import sys
import tempfile

import tf_files
import numpy as np

X = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
Y = np.array([[1, 0], [2, 0], [3, 0], [4, 0]], np.float32)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def check(trainer, runner, optimizer, folder):
    first, second = (os.path.join(folder, name) for name in ("first", "second"))
    os.mkdir(first)
    os.mkdir(second)
    subprocess.run([trainer, first, optimizer], check=True)
    for end in (".meta", ".index", ".data-00000-of-00001"):
        shutil.move(f"{first}/m-10{end}", second)
    steps = [{"feeds": {"x:0": X, "y:0": Y}, "targets": ["train"], "counter": t}
             for t in range(11, 21)]
    tf_files.run_meta(runner, f"{second}/m-10", steps, f"{second}/m-20")
    variables = tf_files.read_checkpoint(f"{second}/m-20")
    ends = [".index", ".data-00000-of-00001"]
    same = [read(f"{first}/m-20{e}") == read(f"{second}/m-20{e}") for e in ends]
    ok = all(same) and variables["global_step"] == 20
    print(f"{'ok' if ok else 'FAILED'}: {optimizer}: {len(variables)} variables")
    return ok


def main():
    results = []
    for optimizer in ("adam", "sgd", "momentum", "rmsprop"):
        with tempfile.TemporaryDirectory() as folder:
            results.append(check(sys.argv[1], sys.argv[2], optimizer, folder))
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
