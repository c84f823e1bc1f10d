#!/usr/bin/env python3
"""Check that the tour of the code is true: each function is where the page says.

    check_tour.py SOURCE_DIR

In supervisor/TOUR.md a step names functions as `name` in `path/file.c`, or `one`, `two` in
`path/file.c`. A function must be defined in that file, by a definition at the beginning of a
line. Every step names at least one, a name without a file is a fault, and a journey has at
most 25 lines.
"""
import pathlib
import re
import sys

PAGE = "supervisor/TOUR.md"
JOURNEYS = ["An observation", "A learn", "A death", "A set", "A checkpoint", "A launch", "A resume",
            "A shared update", "A step of an external environment", "A node",
            "A program as an agent"]
MAX_LINES = 25
MIN_FUNCTIONS = 80  # fewer: the page is not read as it is written
REFERENCE = re.compile(r"((?:`\w+`,\s+)*`\w+`)\s+in\s+`([\w/]+\.c)`")


def is_defined(source, name):
    """Whether the C source has a body for the function."""
    for m in re.finditer(rf"^[A-Za-z][\w *]*?\b{name}\(", source, re.MULTILINE):
        depth, end = 1, m.end()
        while depth > 0 and end < len(source):
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        if source[end:].lstrip().startswith("{"):
            return True
    return False


def steps_of(body):
    """(number, text) of each numbered step of a journey."""
    found = re.split(r"^(\d+)\. ", body, flags=re.MULTILINE)[1:]
    return list(zip(map(int, found[::2]), found[1::2]))


def faults_of_step(root, text):
    references = REFERENCE.findall(text)
    faults = [] if references else ["names no function with its file"]
    for names, path in references:
        file = root / path
        source = file.read_text() if file.is_file() else None
        if source is None:
            faults.append(f"there is no file {path}")
            continue
        faults += [f"{name} is not defined in {path}"
                   for name in re.findall(r"\w+", names) if not is_defined(source, name)]
    faults += [f"`{word}` stands without its file"
               for word in re.findall(r"`([^`]+)`", REFERENCE.sub("", text))]
    return faults


def main():
    root = pathlib.Path(sys.argv[1])
    parts = re.split(r"^## (.+)\n", (root / PAGE).read_text(), flags=re.MULTILINE)[1:]
    journeys = dict(zip(parts[::2], parts[1::2]))
    faults = [] if list(journeys) == JOURNEYS else [f"journeys: {JOURNEYS} expected"]
    functions = 0
    for title, body in journeys.items():
        steps = steps_of(body)
        if [n for n, _ in steps] != list(range(1, len(steps) + 1)):
            faults.append(f"{title}: steps are not numbered from 1 on")
        if len(body.strip().splitlines()) > MAX_LINES:
            faults.append(f"{title}: more than {MAX_LINES} lines")
        for n, text in steps:
            functions += sum(len(re.findall(r"\w+", names))
                             for names, _ in REFERENCE.findall(text))
            faults += [f"{title}, step {n}: {what}" for what in faults_of_step(root, text)]
    if functions < MIN_FUNCTIONS:
        faults.append(f"only {functions} functions were found")
    for fault in faults:
        print(f"{PAGE}: {fault}")
    print(f"{functions} functions, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
