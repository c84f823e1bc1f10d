#include "supervisor/proc/program.h"

#include "common/err/check.h"
#include "supervisor/proc/keeper.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_PASSED = 3, N_LAUNCH_WORDS = 5, MARK_BYTES = 128 };

/* The programs that run; sweeps spare them (worker_local.c). */
static LIST_HEAD(, program) running = LIST_HEAD_INITIALIZER(running);

size_t program_pass_variables(const char *const *passed, size_t n_passed, char **ret)
{
    size_t n = 0;

    for (char **v = environ; v != NULL && *v != NULL; v++)
        for (size_t i = 0; i < n_passed && n < n_passed; i++)
            if (strncmp(*v, passed[i], strlen(passed[i])) == 0)
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

/* mark: room for one of the variables. */
static void make_environment(char *ret[PROGRAM_MAX_VARIABLES + N_PASSED + 1],
                             const struct program_spec *spec, char mark[MARK_BYTES])
{
    static const char *const passed[] = {"PATH=", "HOME="};
    const char *value = getenv(KEEPER_MARK);
    size_t n = program_pass_variables(passed, sizeof(passed) / sizeof(passed[0]), ret);

    (void)snprintf(mark, MARK_BYTES, "%s=%s",
                   spec->has_grace ? KEEPER_GRACE_MARK : KEEPER_MARK,
                   value != NULL ? value : "");
    if (value != NULL)
        ret[n++] = mark;
    for (size_t i = 0; i < spec->n_variables; i++)
        ret[n++] = (char *)(uintptr_t)spec->variables[i]; /* read only */
    ret[n] = NULL;
}

/* `brood-agent launch PARENT --input -- COMMAND...` */
static void make_arguments(char *ret[N_LAUNCH_WORDS + PROGRAM_MAX_WORDS + 1],
                           const struct program_spec *spec, char *parent)
{
    static char name[] = "brood-agent", launch[] = "launch", input[] = "--input",
                dashes[] = "--";
    char *const first[N_LAUNCH_WORDS] = {name, launch, parent, input, dashes};
    size_t n = N_LAUNCH_WORDS;

    CHECK(spec->n_words <= PROGRAM_MAX_WORDS);
    memcpy(ret, first, sizeof(first));
    for (size_t i = 0; i < spec->n_words; i++)
        ret[n++] = (char *)(uintptr_t)spec->words[i];
    ret[n] = NULL;
}

/* errno, or 0. */
static int spawn(pid_t *ret, const struct program_spec *spec, char **args, char **env)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    char exe[64];
    int rc;

    (void)snprintf(exe, sizeof(exe), "/proc/self/fd/%d", spec->agent_exe_fd);
    if ((rc = posix_spawn_file_actions_init(&files)) != 0)
        return rc;
    if ((rc = posix_spawnattr_init(&attr)) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    /* From its first moment on it has a group of its own, which can be killed. */
    rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, spec->input_fd, STDIN_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, spec->output_fd, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, spec->output_fd, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_addchdir_np(&files, spec->directory);
    if (rc == 0)
        rc = posix_spawn(ret, exe, &files, &attr, args, env);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

int program_start(struct program *p, const struct program_spec *spec, struct err *err)
{
    char parent[32], mark[MARK_BYTES], *args[N_LAUNCH_WORDS + PROGRAM_MAX_WORDS + 1];
    char *env[PROGRAM_MAX_VARIABLES + N_PASSED + 1];
    int rc;

    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    make_arguments(args, spec, parent);
    make_environment(env, spec, mark);
    *p = (struct program){0};
    rc = spawn(&p->pid, spec, args, env);
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
    (void)kill(-p->pid, SIGKILL);
    *ret_status = 0;
    (void)waitpid(p->pid, ret_status, 0);
    LIST_REMOVE(p, entry);
    p->pid = 0;
    return 1;
}

void program_signal(const struct program *p, int signum)
{
    (void)kill(-p->pid, signum);
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
