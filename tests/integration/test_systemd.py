"""The user unit of systemd: what it forbids, and that brood needs none of it."""
import os
import re
import shlex
import shutil
import signal
import subprocess

import harness

UNIT = harness.SOURCE / "scripts" / "systemd" / "brood@.service"
# What `systemd-analyze security` gives for exposure, 0 to 100, at most. Most of the rest are
# capabilities, which a user's manager does not have to give.
MOST_EXPOSED = 69


def value(key):
    """All values of a key, joined."""
    return " ".join(re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.M))


def analyze(w, *args, code=0):
    if not shutil.which("systemd-analyze"):
        raise harness.Skip("no systemd-analyze")
    p = subprocess.run(["systemd-analyze", *map(str, args)], capture_output=True, text=True, check=False,
                       env={**os.environ, "XDG_RUNTIME_DIR": str(w.path), "SYSTEMD_COLORS": "0"})
    if "unrecognized option" in p.stderr:
        raise harness.Skip("systemd-analyze is older than 250")
    assert p.returncode == code, (args, p.stdout[-2000:], p.stderr)
    return p.stdout + p.stderr


def test_it_is_hardened(w):
    said = analyze(w, "--user", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", UNIT)
    print("#", said.strip().splitlines()[-1])
    for key in ("NoNewPrivileges", "RestrictNamespaces", "RestrictSUIDSGID", "RestrictRealtime",
                "LockPersonality"):
        assert value(key) == "yes", key


def calls_of(w, group, seen):
    """The system calls of a group, and of those that it contains."""
    ret = set()
    for line in analyze(w, "syscall-filter", group).splitlines()[1:]:
        word = line.strip()
        if word.startswith("@") and word not in seen:
            seen.add(word)
            ret |= calls_of(w, word, seen)
        elif word and word[0] not in "@#":
            ret.add(word)
    return ret


def test_its_filter_allows_what_agents_and_environments_use(w):
    """Every call on their own lists, and those with which brood puts them under these."""
    allowed = set()
    for word in value("SystemCallFilter").split():
        allowed |= calls_of(w, word, set()) if word.startswith("@") else {word}
    source = (harness.SOURCE / "common" / "confine" / "call_sets.c").read_text()
    needed = set()
    for name in ("compute", "reads", "writes_files", "processes", "connects", "events"):
        found = re.search(rf"int {name}\[\] = \{{(.*?)\n\}};", source, re.S)
        assert found, name
        needed |= set(re.findall(r"\bSYS_(\w+)", found[1]))
    assert len(needed) > 100, needed
    needed |= {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
               "pidfd_open", "memfd_create", "openat2", "close_range", "clone3",
               "execveat", "fallocate", "fdatasync", "prlimit64", "setpriority"}
    assert not needed - allowed, needed - allowed


def test_it_starts_stops_and_resumes_a_run(w):
    """What it executes, without new privileges."""
    words = shlex.split(value("ExecStart").replace("%i", "trial"))
    w.write("trial.yaml", harness.SMALL.format(steps=harness.FOREVER, evaluate=0, checkpoint=0))
    place = w.path / "bin"
    place.mkdir()
    (place / "brood").symlink_to(harness.BROOD)
    env = {"PATH": f"{place}:{os.environ['PATH']}"}
    for event in ("start", "resume"):
        p = w.start(*words[1:], program=words[0], prefix=("setpriv", "--no-new-privs"), env=env)
        journal = w.run_dir("trial") / "journal"
        rows = harness.rows(w.run_dir("trial"))
        harness.wait_until(event, lambda: p.poll() is not None or (
            harness.rows(w.run_dir("trial")) > rows and f"event={event} " in journal.read_text()))
        p.send_signal(signal.SIGTERM)
        assert p.wait(timeout=harness.DEADLINE_S) == int(value("SuccessExitStatus")), p.log.read_text()


if __name__ == "__main__":
    harness.main()
