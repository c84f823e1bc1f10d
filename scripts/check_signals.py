#!/usr/bin/env python3
"""Check that processes are signalled only through the functions that refuse -1.

    check_signals.py SOURCE_DIR

Nothing calls kill or one of its kind but the files of ALLOWED. A process may signal itself:
raise and signal.raise_signal.
"""
import pathlib
import re
import sys

ALLOWED = {
    "common/io/signal_process.c": "the functions",
    "tests/support/signals.py": "the functions for tests",
    "tests/support/probing_agent.c": "tries what an agent must not, with signals that do nothing",
    "tests/support/probing_env.py": "tries what an environment must not; kills its own child",
}
FOLDERS = ("common", "agent", "supervisor", "tests", "scripts", ".ci")
C_CALL = re.compile(
    r"(?<![>.\w])(kill|killpg|tkill|tgkill|sigqueue|pthread_kill|pthread_sigqueue|"
    r"uv_kill|uv_process_kill|pidfd_send_signal)\s*\(|"
    r"syscall\s*\(\s*(SYS|__NR)_(kill|tkill|tgkill|pidfd_send_signal|rt_\w*sigqueueinfo)\b")
C_COMMENT = re.compile(r"/\*.*?\*/", re.S)
PYTHON_CALL = re.compile(r"\bos\.(kill|killpg)\b|\bpidfd_send_signal\b|from os import")
SHELL_CALL = re.compile(r"\b(pkill|killall)\b|\bkill\s+(-\w+\s+)?-")


def blank(m):
    """A comment's newlines, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", m.group())


def kind_of(file, text):
    """The pattern for a file, and its text without comments."""
    if file.suffix in (".c", ".h"):
        return C_CALL, C_COMMENT.sub(blank, text)
    if file.suffix == ".py" or text.startswith("#!") and "python" in text.split("\n", 1)[0]:
        return PYTHON_CALL, text
    if file.suffix == ".sh" or text.startswith("#!") and "sh" in text.split("\n", 1)[0]:
        return SHELL_CALL, text
    return None, text


def main():
    root = pathlib.Path(sys.argv[1])
    own = pathlib.Path(__file__).resolve()
    files = sorted(f for top in FOLDERS for f in (root / top).rglob("*") if f.is_file())
    faults = looked_at = 0
    for file in files:
        name = str(file.relative_to(root))
        try:
            pattern, text = kind_of(file, file.read_text())
        except UnicodeDecodeError:
            continue
        if pattern is None or name in ALLOWED or file.resolve() == own:
            continue
        looked_at += 1
        for n, line in enumerate(text.splitlines(), 1):
            m = pattern.search(line)
            if m:
                print(f"{name}:{n}: {m.group().strip()}: call signal_process or signal_group")
                faults += 1
    for name in ALLOWED:
        if not (root / name).is_file():
            print(f"{name} is not there: take it out of ALLOWED")
            faults += 1
    print(f"{looked_at} files, {faults} faults")
    return 1 if faults or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main())
