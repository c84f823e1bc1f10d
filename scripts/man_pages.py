#!/usr/bin/env python3
"""Make the manual pages from the output of the commands' --help.

    man_pages.py BROOD OUTPUT_DIR [--stamp FILE]

Writes brood.1, one brood-COMMAND.1 for each command, and brood.yaml.5, the keys of a
configuration. The texts are those of `--help`: there is no second source.
"""
import pathlib
import re
import subprocess
import sys

# "  -q, --quiet      errors only", "  --init-from RUN[@STEP]  begin with ..."
OPTION = re.compile(r"^  ((?:-\w, )?--?\w.*?)(?:  +(\S.*))?$")
CONTINUED = re.compile(r"^ {6,}(\S.*)$")
COMMAND = re.compile(r"^  ([a-z-]+)  +(\S.*)$")
KEY = re.compile(r"^  ([a-z][\w.]*)( +)(.*)$")
VALUE_WIDTH = 11  # width of the column of defaults in `brood check --help`


def printed(brood, *words):
    return subprocess.run([brood, *words, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.splitlines()


def escape(text):
    """Escapes text for roff: no line becomes a request, no option is broken at a hyphen."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def head(name, section, summary):
    return [f'.TH {name.upper()} {section} "" brood', ".SH NAME",
            escape(f"{name} - {summary[:1].lower()}{summary[1:].rstrip('.')}")]


def body(lines):
    """Options as tagged paragraphs, the example unchanged, the rest as plain paragraphs."""
    out, in_option = [], False
    for line in lines:
        option, more = OPTION.match(line), CONTINUED.match(line)
        if line.startswith("example: "):
            out += [".SH EXAMPLE", ".nf", escape(line[len("example: "):]), ".fi"]
        elif option:
            out += [".TP", ".B " + escape(option.group(1)), escape(option.group(2) or "")]
            in_option = True
        elif more and in_option:
            out.append(escape(more.group(1)))
        elif not line.strip():
            out.append(".PP")
            in_option = False
        else:
            out.append(escape(line.strip()))
    while out and out[-1] == ".PP":
        out.pop()
    return [line for line in out if line]


def command_page(brood, name):
    lines = printed(brood, name)
    keys = next((i for i, line in enumerate(lines) if line.startswith("Every key")), None)
    usage, summary = lines[0].removeprefix("usage: "), lines[2]
    return head(f"brood-{name}", 1, summary) + [
        ".SH SYNOPSIS", escape(usage), ".SH DESCRIPTION", escape(summary), ".PP",
        *body(lines[4:keys]), ".SH SEE ALSO", ".BR brood (1),", ".BR brood.yaml (5)"]


def commands(brood):
    return [m.groups() for m in map(COMMAND.match, printed(brood)) if m]


def main_page(brood):
    lines = printed(brood)
    out = head("brood", 1, lines[2]) + [
        ".SH SYNOPSIS", escape(lines[0].removeprefix("usage: ")), ".SH DESCRIPTION",
        escape(lines[2]), "Each command has a page of its own:", ".BR brood\\-run (1)",
        "and so on.", ".SH COMMANDS"]
    for name, summary in commands(brood):
        out += [".TP", f".BR brood\\-{name} (1)", escape(summary)]
    return out + [".SH SEE ALSO", ".BR brood.yaml (5)"]


def keys_page(brood):
    lines = printed(brood, "check")
    start = next(i for i, line in enumerate(lines) if line.startswith("Every key"))
    keys = [KEY.match(line) for line in lines[start + 1:] if line.strip()]
    value_at = min(m.start(3) for m in keys)
    out = head("brood.yaml", 5, "the configuration of a run of brood") + [
        ".SH DESCRIPTION",
        "A YAML file describes an experiment. Only what differs from the defaults need be",
        "written; a key under",
        ".B agents",
        "overrides the same key of",
        ".B defaults",
        "for that agent.", ".SH KEYS"]
    for m in keys:
        line = m.string
        value = line[value_at:value_at + VALUE_WIDTH].strip()
        doc = line[value_at + VALUE_WIDTH:].strip()
        out += [".TP", ".B " + escape(m.group(1)) + (f" \\fR({escape(value)})" if value else ""),
                escape(doc)]
    return out + [".SH SEE ALSO", ".BR brood (1),", ".BR brood\\-check (1)"]


def main():
    brood, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"brood.1": main_page(brood), "brood.yaml.5": keys_page(brood)}
    for name, _ in commands(brood):
        pages[f"brood-{name}.1"] = command_page(brood, name)
    for name, lines in pages.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    if "--stamp" in sys.argv:
        pathlib.Path(sys.argv[sys.argv.index("--stamp") + 1]).touch()


if __name__ == "__main__":
    main()
