#!/usr/bin/env python3
"""Write the page's files as a C source.

    embed.py OUTPUT.c FILE...
"""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def main():
    out = ['#include "supervisor/web/assets.h"', ""]
    rows = []
    for i, path in enumerate(map(pathlib.Path, sys.argv[2:])):
        data = path.read_bytes()
        out.append(f"static const unsigned char file_{i}[] = {{")
        out += [",".join(map(str, data[at:at + 64])) + "," for at in range(0, len(data), 64)]
        out += ["0};", ""]
        url = "/" if path.name == "index.html" else f"/{path.name}"
        rows.append(f'    {{"{url}", "{TYPES[path.suffix]}", file_{i}, {len(data)}}},')
    out += ["const struct asset assets[] = {", *rows, "};",
            "const size_t n_assets = sizeof(assets) / sizeof(assets[0]);"]
    pathlib.Path(sys.argv[1]).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
