/* The processes that child.h executes: their descriptors, signals, sessions and errors; and the
 * programs that program.h and command_output.h make of them. */
#include "supervisor/proc/child.h"
#include "supervisor/proc/command_output.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *const no_variables[] = {NULL};

/* Executes a shell's script; returns what it wrote. */
static const char *output_of(const char *script, struct child_spec spec, int *fds)
{
    static char text[256];
    const char *const args[] = {"sh", "-c", script, NULL};
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    fds[1] = ends[1];
    spec.file = "/bin/sh";
    spec.args = (char *const *)(uintptr_t)args; /* read only */
    spec.env = no_variables;
    spec.fds = fds;
    ck_assert_int_eq(child_spawn(&pid, &spec), 0);
    ck_assert_int_eq(close(ends[1]), 0);
    while ((got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    ck_assert_int_eq(close(ends[0]), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    return text;
}

/* A pipe with one line in it, to read from. */
static int line_of(const char *text)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(close(ends[1]), 0);
    return ends[0];
}

START_TEST(descriptors_may_have_each_others_numbers)
{
    int fds[6] = {-1, -1, -1, -1, -1, -1};
    struct child_spec spec = {.kind = CHILD_OF_SESSION, .n_fds = 6};

    ck_assert_int_eq(dup3(line_of("is four\n"), 5, O_CLOEXEC), 5);
    ck_assert_int_eq(dup3(line_of("is five\n"), 4, O_CLOEXEC), 4);
    fds[4] = 5;
    fds[5] = 4;
    ck_assert_str_eq(output_of("cat <&4; cat <&5; cat", spec, fds), "is four\nis five\n");
}
END_TEST

/* The C library ignores two of its own, 32 and 33. */
START_TEST(no_signal_is_blocked_or_ignored)
{
    int fds[3] = {-1, -1, -1};
    struct child_spec spec = {.kind = CHILD_OF_SESSION, .n_fds = 3};
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(sigprocmask(SIG_SETMASK, &all, &before), 0);
    ck_assert_str_eq(
        output_of("grep -cE '^Sig(Blk|Ign):.*[08]0{7}$' /proc/self/status", spec, fds),
        "2\n");
    ck_assert_int_eq(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}
END_TEST

START_TEST(it_leads_a_session_or_a_group)
{
    static const char script[] =
        "set -- $(cat /proc/$$/stat); echo $(($5 == $1)) $(($6 == $1))";
    int fds[3] = {-1, -1, -1};
    struct child_spec spec = {.kind = CHILD_OF_SESSION, .n_fds = 3};

    ck_assert_str_eq(output_of(script, spec, fds), "1 1\n");
    spec.kind = CHILD_OF_GROUP;
    ck_assert_str_eq(output_of(script, spec, fds), "1 0\n");
    spec.directory = "/usr";
    ck_assert_str_eq(output_of("pwd", spec, fds), "/usr\n");
}
END_TEST

START_TEST(what_cannot_be_executed_is_an_errno)
{
    char *const args[] = {(char[]){"nothing"}, NULL};
    struct child_spec spec = {
        .file = "/nowhere/nothing", .args = args, .env = no_variables};
    pid_t pid;

    ck_assert_int_eq(child_spawn(&pid, &spec), ENOENT);
    spec.file = "/bin/sh";
    spec.directory = "/nowhere";
    ck_assert_int_eq(child_spawn(&pid, &spec), ENOENT);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* ---- programs that are asked ---- */

enum { PATIENT_MS = 600000, SHORT_MS = 50 };

#define SHELL(script)                                                                    \
    (const char *const[])                                                                \
    {                                                                                    \
        "sh", "-c", script, NULL                                                         \
    }

/* Looks at it until it is over. */
static void await_end(struct asked_command *c)
{
    while (!command_look(c))
        (void)poll(NULL, 0, 1);
    ck_assert_int_eq(c->program.pid, 0);
}

START_TEST(a_program_is_asked)
{
    char *output;
    struct err err = {0};

    ck_assert_int_eq(
        command_ask(SHELL("cat; echo one; echo two >&2"), PATIENT_MS, &output, &err), 0);
    ck_assert_str_eq(output, "one\ntwo\n");
    free(output);
    ck_assert_int_eq(
        command_ask(SHELL("echo fine; echo no; exit 1"), PATIENT_MS, &output, &err),
        ERR_STATE);
    ck_assert_str_eq(err.msg, "sh: no");
    ck_assert_ptr_null(output);
    ck_assert_int_eq(command_ask((const char *const[]){"/nowhere/nothing", NULL},
                                 PATIENT_MS, &output, &err),
                     -ENOENT);
}
END_TEST

/* Whatever it left in its group ends with it. */
START_TEST(a_program_that_is_late_is_killed)
{
    struct asked_command c = {.argv = SHELL("echo $$; sleep 1000000 & wait")};

    ck_assert_int_eq(command_begin(&c, SHORT_MS), 0);
    ck_assert(program_is_known(c.program.pid));
    await_end(&c);
    ck_assert_int_eq(c.err.code, ERR_TIMEOUT);
    ck_assert_str_eq(c.err.msg, "sh did not end within 0.05 s");
    free(c.output);

    c = (struct asked_command){.argv = SHELL("sleep 1000000")};
    ck_assert_int_eq(command_begin(&c, PATIENT_MS), 0);
    ck_assert_int_eq(command_look(&c), 0);
    command_cancel(&c);
    ck_assert_int_eq(c.program.pid, 0);
    free(c.output);
}
END_TEST

START_TEST(the_newest_output_is_kept)
{
    struct asked_command c = {
        .argv =
            SHELL("head -c 3000000 /dev/zero | tr '\\000' x; echo; echo last; exit 1")};

    ck_assert_int_eq(command_begin(&c, PATIENT_MS), 0);
    await_end(&c);
    ck_assert_str_eq(c.err.msg, "sh: last");
    ck_assert_uint_gt(strlen(c.output), COMMAND_OUTPUT_MAX_BYTES / 4);
    ck_assert_uint_le(strlen(c.output), 2 * COMMAND_OUTPUT_MAX_BYTES);
    free(c.output);
}
END_TEST

START_TEST(a_program_reads_its_input)
{
    const char *const words[] = {"grep", "-q", "^an event$"};
    struct program_spec spec = {.is_direct = 1,
                                .words = words,
                                .n_words = 3,
                                .input = "an event\n",
                                .output_fd = -1};
    struct program p;
    int status = -1;

    ck_assert_int_eq(program_start(&p, &spec, NULL), 0);
    while (!program_ended(&p, &status))
        (void)poll(NULL, 0, 1);
    ck_assert_int_eq(status, 0);
    ck_assert(!p.is_late);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("child");
    TCase *tc = tcase_create("child");

    tcase_add_test(tc, descriptors_may_have_each_others_numbers);
    tcase_add_test(tc, no_signal_is_blocked_or_ignored);
    tcase_add_test(tc, it_leads_a_session_or_a_group);
    tcase_add_test(tc, what_cannot_be_executed_is_an_errno);
    tcase_add_test(tc, a_program_is_asked);
    tcase_add_test(tc, a_program_that_is_late_is_killed);
    tcase_add_test(tc, the_newest_output_is_kept);
    tcase_add_test(tc, a_program_reads_its_input);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
