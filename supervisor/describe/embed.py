#!/usr/bin/env python3
"""Write the answer of `brood-agent describe` as a C source.

    embed.py ANSWER OUTPUT.c
"""
import pathlib
import sys


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    lines = [",".join(map(str, data[at:at + 24])) for at in range(0, len(data), 24)]
    pathlib.Path(sys.argv[2]).write_text(
        '#include "supervisor/describe/packed.h"\n\n'
        "const uint8_t described_frame[] = {\n" + ",\n".join(lines) + "};\n"
        "const size_t described_frame_bytes = sizeof(described_frame);\n", encoding="ascii")


if __name__ == "__main__":
    main()
