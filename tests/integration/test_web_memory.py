"""The protocol of `brood web` under valgrind: what test_web.py sends, above all without the token,
makes neither brood-web nor libwebsockets, which no sanitizer instruments, use memory wrongly."""
import shutil
import signal
import unittest.mock

import harness
import test_web as web

ERROR = 99   # the exit code of a program in which valgrind found something


def under_valgrind(test):
    def run(w):
        if harness.SANITIZED:
            raise harness.Skip("valgrind and sanitizers exclude each other: the release build has it")
        if not shutil.which("valgrind"):
            raise harness.Skip("no valgrind")
        log = w.path / "valgrind-%p"
        web.Server.PREFIX = ("valgrind", "-q", f"--error-exitcode={ERROR}", "--leak-check=full",
                                  "--errors-for-leak-kinds=definite", f"--log-file={log}")
        test(w)
        for p in w.started:
            if p.args[0] != "valgrind":
                continue
            p.send_signal(signal.SIGTERM)
            code = p.wait(timeout=harness.DEADLINE_S)
            # Lines with -- are about valgrind: it does not know every system call.
            said = [line for line in (w.path / f"valgrind-{p.pid}").read_text().splitlines()
                    if not line.startswith("--")]
            assert code == 0 and not said, (code, said[:60])
    return run


@under_valgrind
def test_what_needs_no_run(w):
    """With one server: valgrind takes seconds to start. The first counts connections."""
    server = web.Server(w)
    with unittest.mock.patch.object(web, "Server", lambda _: server):
        for name in ("no_state_of_a_connection_lasts", "only_who_has_the_token_gets_in",
                     "the_pages_own_files_need_no_token", "other_pages_are_kept_out",
                     "only_http_and_websockets_are_spoken", "strangers_do_not_keep_the_owner_out"):
            print(f"# {name}")
            getattr(web, f"test_{name}")(w)


for name in ("what_is_no_request_is_refused", "a_file_is_read_by_ranges", "a_part_has_a_bound",
             "configuration_and_checkpoints", "read_only"):
    globals()[f"test_{name}"] = under_valgrind(getattr(web, f"test_{name}"))


if __name__ == "__main__":
    harness.main()
