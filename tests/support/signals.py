"""The only place from which tests in Python signal processes: a number that is not one process,
or not one group, is refused (common/io/signal_process.h says why)."""
import os


def signal_process(pid, signum):
    """Raises ProcessLookupError if there is no such process."""
    if pid <= 1:
        raise ValueError(f"{pid} is no process that a test may signal")
    os.kill(pid, signum)


def signal_group(pgid, signum):
    """Signals all processes of a group; raises ProcessLookupError if it has none."""
    if pgid <= 1:
        raise ValueError(f"{pgid} is no group that a test may signal")
    os.killpg(pgid, signum)
