#!/usr/bin/env python3
"""Check that no call adds nodes to a graph in two of its arguments.

    check_order.py SOURCE_DIR

C leaves open which argument of a call is evaluated first, and compilers for different
machines choose differently: the same graph would have its nodes in another order, and other
names. So at most one argument of a call may call a function of agent/ that returns an
output or an operation, unless that only looks something up.
"""
import pathlib
import re
import sys

MAKES_NODES = re.compile(r"^(?:static )?(?:inline )?struct (?:output|operation \*) ?(\w+)\(",
                         re.MULTILINE)
LOOK_UPS = {"input_of", "output_of", "graph_operation", "graph_find"}
NOT_CALLS = {"if", "for", "while", "switch", "return", "sizeof"}


def arguments(text, start):
    """The texts of a call's arguments. start: the index of its opening parenthesis."""
    found, depth, begin = [], 0, start + 1
    for i in range(start, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
        if depth == 0 or (text[i] == "," and depth == 1):
            found.append(text[begin:i])
            begin = i + 1
        if depth == 0:
            break
    return found


def main():
    folder = pathlib.Path(sys.argv[1]) / "agent"
    sources = {p: p.read_text() for p in sorted(folder.rglob("*.[ch]"))}
    makers = {m for text in sources.values() for m in MAKES_NODES.findall(text)} - LOOK_UPS
    makes = re.compile(r"\b(?:" + "|".join(sorted(makers)) + r")\(")
    assert len(makers) > 50, "the functions that make nodes are not recognised any more"
    faults = 0
    for path, text in sources.items():
        for call in re.finditer(r"\b(\w+)\(", text):
            if call.group(1) in NOT_CALLS:
                continue
            if sum(bool(makes.search(a)) for a in arguments(text, call.end() - 1)) > 1:
                line = text.count("\n", 0, call.start()) + 1
                print(f"{path}:{line}: {call.group(1)}: two arguments add nodes to the graph;"
                      " make one before the call")
                faults += 1
    print(f"{len(sources)} files, {len(makers)} functions that make nodes, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
