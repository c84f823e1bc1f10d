#!/usr/bin/env python3
"""pack_wheel.py SOURCES TREE DIR: makes the wheel of the Python package in SOURCES, adds what is
installed in TREE (bin, libexec, share), and leaves it in DIR. pip puts bin/brood beside python3,
and the rest into the same prefix, where the program looks for it."""
import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# Programs without shared libraries run with any C library.
PLATFORM = "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64"


def pure_wheel(sources, folder):
    """The package alone, as setuptools makes it. It writes beside the sources: a copy of them."""
    copy = folder / "sources"
    subprocess.run(["cp", "-r", sources, copy], check=True)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps",
                    "--no-build-isolation", "--wheel-dir", folder, copy], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def entries(wheel, tree):
    """(name, mode, bytes) of all files but RECORD."""
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            data = z.read(name)
            if name.endswith(".dist-info/WHEEL"):
                lines = [x for x in data.decode().splitlines()
                         if not x.startswith(("Tag:", "Root-Is-Purelib:"))]
                tags = [f"Tag: py3-none-{p}" for p in PLATFORM.split(".")]
                data = "\n".join([*lines, "Root-Is-Purelib: false", *tags, ""]).encode()
            if not name.endswith(".dist-info/RECORD"):
                yield name, 0o644, data
    data_folder = "-".join(wheel.name.split("-")[:2]) + ".data"
    for path in sorted(p for p in tree.rglob("*") if p.is_file()):
        where = path.relative_to(tree)
        kind = "scripts" if where.parts[0] == "bin" else "data"
        inner = where.relative_to("bin") if kind == "scripts" else where
        executable = os.access(path, os.X_OK)
        yield f"{data_folder}/{kind}/{inner}", 0o755 if executable else 0o644, path.read_bytes()


def main():
    sources, tree, to = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        pure = pure_wheel(sources, pathlib.Path(folder))
        name = "-".join(pure.name.split("-")[:2])
        wheel = to / f"{name}-py3-none-{PLATFORM}.whl"
        record = []
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as z:
            for path, mode, data in entries(pure, tree):
                info = zipfile.ZipInfo(path)
                info.external_attr = (0o100000 | mode) << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(info, data)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                record.append(f"{path},sha256={digest.decode()},{len(data)}")
            path = f"{name}.dist-info/RECORD"
            z.writestr(path, "\n".join([*record, f"{path},,", ""]))
    print(f"built {wheel.name}")


if __name__ == "__main__":
    main()
