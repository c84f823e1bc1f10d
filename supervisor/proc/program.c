#include "supervisor/proc/program.h"

#include "common/io/close_fd.h"
#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "common/io/write_all.h"
#include "common/mem/words.h"
#include "common/text/scan.h"
#include "supervisor/proc/child.h"
#include "supervisor/proc/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The programs that run; sweeps spare them (worker_local.c). */
static LIST_HEAD(, program) running = LIST_HEAD_INITIALIZER(running);

size_t program_pass_variables(const char *const *passed, size_t n_passed, char **ret)
{
    size_t n = 0;

    for (char **v = environ; v != NULL && *v != NULL; v++)
        for (size_t i = 0; i < n_passed && n < n_passed; i++)
            if (text_after(*v, passed[i]) != NULL)
                ret[n++] = *v;
    return n;
}

void program_spec_pass(struct program_spec *spec, const char *const *passed,
                       size_t n_passed)
{
    char *found[PROGRAM_MAX_VARIABLES];
    const size_t most = PROGRAM_MAX_VARIABLES - spec->n_variables;
    const size_t n =
        program_pass_variables(passed, n_passed < most ? n_passed : most, found);

    for (size_t i = 0; i < n; i++)
        spec->variables[spec->n_variables++] = found[i];
}

static void put_environment(struct words *env, const struct program_spec *spec)
{
    static const char *const passed[] = {"PATH=", "HOME="};
    const char *mark = getenv(KEEPER_MARK);
    char *own[2];
    const size_t n = program_pass_variables(passed, 2, own);

    for (size_t i = 0; i < n; i++)
        words_add(env, own[i], NULL);
    if (mark != NULL)
        words_add(env,
                  arena_printf(env->arena, "%s=%s",
                               spec->has_grace ? KEEPER_GRACE_MARK : KEEPER_MARK, mark),
                  NULL);
    for (size_t i = 0; i < spec->n_variables; i++)
        words_add(env, spec->variables[i], NULL);
}

/* A file in memory; unlike a pipe, it never makes us wait. NULL: none, -1. */
static int open_input(const char *text, int *ret_fd, struct err *err)
{
    *ret_fd = -1;
    if (text == NULL)
        return 0;
    *ret_fd = memfd_create("input", MFD_CLOEXEC);
    if (*ret_fd < 0)
        return err_errno(err, "memfd_create");
    if (write_all(*ret_fd, text, strlen(text)) < 0 || lseek(*ret_fd, 0, SEEK_SET) < 0)
        return err_errno(err, "writing the input of a program");
    return 0;
}

static int execute(struct program *p, const struct program_spec *spec, int input_fd,
                   struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words args = {.arena = &arena}, env = {.arena = &arena};
    struct child_spec child = {
        .kind = CHILD_OF_GROUP,
        .file = spec->words[0],
        .directory = spec->directory,
        .env = environ,
        .fds = (const int[]){input_fd, spec->output_fd, spec->output_fd},
        .n_fds = 3};
    int rc;

    if (!spec->is_direct) {
        child.kind = CHILD_OF_SESSION;
        child.file = arena_printf(&arena, "/proc/self/fd/%d", spec->agent_exe_fd);
        words_add(&args, "brood-agent", "launch",
                  arena_printf(&arena, "%d", (int)getpid()), "--input", "--", NULL);
        put_environment(&env, spec);
        child.env = words_argv(&env);
    }
    for (size_t i = 0; i < spec->n_words; i++)
        words_add(&args, spec->words[i], NULL);
    child.args = words_argv(&args);
    rc = child_spawn(&p->pid, &child);
    arena_done(&arena);
    if (rc == 0)
        return 0;
    p->pid = 0;
    errno = rc;
    return spec->is_direct
               ? err_errno(err, "%s", spec->words[0])
               : err_errno(err, "it cannot be started in %s", spec->directory);
}

int program_start(struct program *p, const struct program_spec *spec, struct err *err)
{
    int input_fd, rc = open_input(spec->input, &input_fd, err);

    *p = (struct program){
        .until_ms = spec->timeout_ms > 0 ? monotonic_ms() + spec->timeout_ms : INT64_MAX};
    if (rc == 0)
        rc = execute(p, spec, input_fd, err);
    if (rc == 0)
        LIST_INSERT_HEAD(&running, p, entry);
    close_fd(&input_fd);
    return rc;
}

int program_ended(struct program *p, int *ret_status)
{
    siginfo_t info = {0};

    if (!p->is_late && monotonic_ms() >= p->until_ms) {
        p->is_late = 1;
        program_kill(p);
    }
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == 0)
        return 0;
    /* Until it is reaped, no other group can get its number. */
    program_kill(p);
    *ret_status = 0;
    (void)waitpid(p->pid, ret_status, 0);
    LIST_REMOVE(p, entry);
    p->pid = 0;
    return 1;
}

void program_signal(const struct program *p, int signum)
{
    (void)signal_group(p->pid, signum);
}

void program_kill(const struct program *p)
{
    program_signal(p, SIGKILL);
}

int program_is_known(pid_t pid)
{
    const struct program *p;

    LIST_FOREACH(p, &running, entry)
    if (p->pid == pid)
        return 1;
    return 0;
}
