"""The manual pages contain everything in `--help`, in roff that groff accepts."""
import re
import shutil
import subprocess
import sys

import harness

PAGES = harness.SOURCE / "scripts" / "man_pages.py"


def pages(w):
    subprocess.run([sys.executable, PAGES, harness.BROOD, w.path / "man"], check=True)
    return {p.name: p.read_text() for p in (w.path / "man").iterdir()}


def words(text):
    """The words of a page or of a help text, without roff's requests and escapes."""
    text = re.sub(r"^\.\w+ ?|\\f\w|\\&", "", text, flags=re.MULTILINE)
    return set(text.replace("\\-", "-").replace("\\e", "\\").split())


def test_every_command_has_a_page_with_all_of_its_help(w):
    made = pages(w)
    listed = re.findall(r"^  ([a-z-]+)  ", w.brood("--help")[0], re.MULTILINE)
    assert len(listed) > 20
    assert made.keys() == {"brood.1", "brood.yaml.5"} | {f"brood-{c}.1" for c in listed}
    for command in listed:
        text = w.brood(command, "--help")[0].split("Every key of a configuration")[0]
        missing = words(text) - words(made[f"brood-{command}.1"]) - {"usage:", "example:"}
        assert not missing, (command, missing)


def test_every_key_has_its_default_and_its_meaning(w):
    made = pages(w)["brood.yaml.5"]
    text = w.brood("check", "--help")[0].split("what it is for:")[1]
    keys = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    assert len(keys) > 80
    entries = re.findall(r"^\.TP\n\.B (\S+)(.*)\n(.*)$", made.replace("\\-", "-"),
                         re.MULTILINE)
    assert [e[0] for e in entries] == [k[0] for k in keys]
    for (key, default, meaning), (_, rest) in zip(entries, keys):
        default = default.removeprefix(" \\fR(").removesuffix(")").replace("\\e", "\\")
        meaning = meaning.removeprefix("\\&")
        assert meaning and (default + " " + meaning).split() == rest.split(), (key, rest)


def test_groff_takes_them(w):
    if not shutil.which("groff"):
        raise harness.Skip("groff is not installed")
    pages(w)
    for page in (w.path / "man").iterdir():
        p = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", page], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert p.returncode == 0 and not p.stdout, (page.name, p.stdout)


def test_no_text_for_users_names_a_source(w):
    """They do not have it: help and messages name commands, keys and files of theirs."""
    a_source = re.compile(r"\b[a-z_0-9]+\.[ch]\b")
    told = [w.brood("algorithms")[0]]
    for line in w.brood("--help")[0].splitlines():
        if found := re.match(r"  ([a-z-]+) ", line):
            told.append(w.brood(found[1], "--help")[0])
    assert len(told) > 30 and not any(map(a_source.search, told)), told
    named = []
    for folder in ("agent", "common", "supervisor"):
        for file in (harness.SOURCE / folder).rglob("*.c"):
            text = re.sub(r"/\*.*?\*/|^#include.*?$", "", file.read_text(), flags=re.M | re.S)
            named += [(file.name, word) for word in re.findall(r'"(?:[^"\\\n]|\\.)*"', text)
                      if a_source.search(word)]
    assert not named, named


if __name__ == "__main__":
    harness.main()
