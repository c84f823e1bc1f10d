#include "supervisor/proc/program.h"

#include "common/io/signal_process.h"
#include "common/mem/words.h"
#include "common/text/scan.h"
#include "supervisor/proc/child.h"
#include "supervisor/proc/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int program_start(struct program *p, const struct program_spec *spec, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words args = {.arena = &arena}, env = {.arena = &arena};
    struct child_spec child = {
        .kind = CHILD_OF_SESSION,
        .file = arena_printf(&arena, "/proc/self/fd/%d", spec->agent_exe_fd),
        .directory = spec->directory,
        .fds = (const int[]){spec->input_fd, spec->output_fd, spec->output_fd},
        .n_fds = 3};
    int rc;

    words_add(&args, "brood-agent", "launch", arena_printf(&arena, "%d", (int)getpid()),
              "--input", "--", NULL);
    for (size_t i = 0; i < spec->n_words; i++)
        words_add(&args, spec->words[i], NULL);
    put_environment(&env, spec);
    *p = (struct program){0};
    child.args = words_argv(&args);
    child.env = words_argv(&env);
    rc = child_spawn(&p->pid, &child);
    arena_done(&arena);
    if (rc != 0) {
        p->pid = 0;
        errno = rc;
        return err_errno(err, "it cannot be started in %s", spec->directory);
    }
    LIST_INSERT_HEAD(&running, p, entry);
    return 0;
}

int program_ended(struct program *p, int *ret_status)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == 0)
        return 0;
    /* Until it is reaped, no other group can get its number. */
    (void)signal_group(p->pid, SIGKILL);
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
