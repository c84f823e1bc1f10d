#!/usr/bin/env python3
"""Check that sources use the words of common/README.md, section "Words".

    check_words.py SOURCE_DIR

Each item of the list defines the words in bold, and may end with "Not: ...": words that other
programs have for the same thing. The C sources use each defined word, and none of the others,
in names, comments or messages.
"""
import collections
import pathlib
import re
import sys

LIST = "common/README.md"
FOLDERS = ("common", "agent", "supervisor")
ITEM = re.compile(r"^- (.*(?:\n  .*)*)", re.M)
NOT = re.compile(r"Not: ([\w, -]+)\.")
WORD = re.compile(r"[A-Za-z]+")
PAIR = re.compile(r'^\s*\{"\w+", "[\w.]+"\},$')  # what other tools call it, and we


def section(text):
    """The section, behind as many newlines as there are lines before it."""
    before, rest = text.split("\n## Words\n", 1)
    return "\n" * (before.count("\n") + 2) + rest.split("\n## ", 1)[0]


def read_list(root):
    """({defined word: line}, {other word: its item's first word})"""
    text = section((root / LIST).read_text())
    defined, others = {}, {}
    for m in ITEM.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        item = " ".join(m.group(1).split())
        words = re.findall(r"\*\*([^*]+)\*\*", item)
        for word in words:
            defined.setdefault(word, line)
        for listed in NOT.findall(item):
            for word in listed.split(","):
                others[word.strip()] = words[0]
    return defined, others


def is_used(word, counts):
    """Whether sources have the word, each of several, or its plural."""
    return all(counts[w] + counts[w + "s"] > 0 for w in WORD.findall(word.lower()))


def main():
    root = pathlib.Path(sys.argv[1])
    defined, others = read_list(root)
    counts = collections.Counter()
    faults = []
    for file in sorted(f for top in FOLDERS for f in (root / top).rglob("*.[ch]")):
        for n, line in enumerate(file.read_text().splitlines(), 1):
            if PAIR.match(line):
                continue
            for word in WORD.findall(line.lower()):
                counts[word] += 1
                for other in (word, word.removesuffix("s"), word.removesuffix("ed")):
                    if other in others:
                        faults.append(f"{file.relative_to(root)}:{n}: {word}: the word is "
                                      f"{others[other]} ({LIST})")
                        break
    for word, line in defined.items():
        if not is_used(word, counts):
            faults.append(f"{LIST}:{line}: no source uses the word {word}")
    print("\n".join(faults) if faults else
          f"{len(defined)} words are used, {len(others)} others are not")
    return 1 if faults or not defined or not others else 0


if __name__ == "__main__":
    sys.exit(main())
