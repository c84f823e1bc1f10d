#include "agent/launch.h"

#include "common/confine/confine.h"
#include "common/msg/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define OOM_SCORE          "500"
#define MAX_KEPT_VARIABLES 64
#define USUAL_FILES        1024

extern char **environ;

/* The signal is tied to the current parent. If the parent died before the call, its pid
 * has changed (not always to 1: a subreaper may have adopted this process). */
static int tie_to_parent(pid_t parent, struct err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_errno(err, "prctl");
    if (getppid() != parent)
        return err_set(err, ERR_STATE, "the parent process %d is gone", (int)parent);
    return 0;
}

static int arrange_descriptors(int keep, int keep_input, struct err *err)
{
    int null = open("/dev/null", O_RDONLY);

    if (null < 0)
        return err_errno(err, "/dev/null");
    if ((!keep_input && dup2(null, STDIN_FILENO) < 0) ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_errno(err, "dup2");
    if (null > STDERR_FILENO)
        (void)close(null);
    if (close_range((unsigned)keep, ~0U, 0) < 0)
        return err_errno(err, "close_range");
    return 0;
}

static int is_kept_variable(const char *v)
{
    return strncmp(v, "PATH=", 5) == 0 || strncmp(v, "HOME=", 5) == 0 ||
           strncmp(v, "BROOD_", 6) == 0 || strncmp(v, "PYTHONHASHSEED=", 15) == 0;
}

static void clean_environment(int keeps_all)
{
    static char lang[] = "LANG=C", threads[] = "OPENBLAS_NUM_THREADS=1";
    char *kept[MAX_KEPT_VARIABLES];
    size_t n = 0;

    for (char **v = environ; v != NULL && *v != NULL && n < MAX_KEPT_VARIABLES; v++)
        if (keeps_all || is_kept_variable(*v))
            kept[n++] = *v;
    (void)clearenv();
    for (size_t i = 0; i < n; i++)
        (void)putenv(kept[i]);
    (void)putenv(lang);
    (void)putenv(threads);
}

/* The supervisor may use more descriptors; programs that call select() cannot use more
 * than this. */
static void limit_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur <= USUAL_FILES)
        return;
    files.rlim_cur = USUAL_FILES;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Best effort: a system without this file has no OOM killer. */
static void volunteer_for_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, OOM_SCORE, sizeof(OOM_SCORE) - 1) < 0)
        (void)errno;
    (void)close(fd);
}

int launch_prepare(const struct launch *l, struct err *err)
{
    const struct rlimit no_core = {0, 0};
    int rc;

    volunteer_for_oom(); /* the file is root's once the memory is hidden */
    if (l->hides)
        confine_memory();
    rc = tie_to_parent(l->parent, err);
    if (rc < 0 || (rc = arrange_descriptors(l->keep_fds, l->keep_input, err)) < 0)
        return rc;
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)setsid(); /* fails if this process already leads a session, which is fine */
    (void)setrlimit(RLIMIT_CORE, &no_core);
    limit_files();
    sigset_t none;
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL); /* fails harmlessly for SIGKILL and the like */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    clean_environment(l->keep_input);
    return 0;
}

int launch_parse_pid(const char *text, pid_t *ret, struct err *err)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || v < 1 || v > INT_MAX)
        return err_set(err, ERR_ARG, "'%s' is not a process id", text);
    *ret = (pid_t)v;
    return 0;
}

static int parse_keep(const char *text, int *ret, struct err *err)
{
    pid_t n = 0;

    if (launch_parse_pid(text, &n, err) < 0 || n < 3 || n > 1024)
        return err_set(err, ERR_ARG, "--keep takes a number from 3 to 1024");
    *ret = (int)n;
    return 0;
}

int launch_main(int argc, char **argv)
{
    struct launch l = {.keep_fds = 3};
    struct err err;
    int at = 2, rc;

    rc = argc > 1 ? launch_parse_pid(argv[1], &l.parent, &err)
                  : err_set(&err, ERR_ARG, "no parent process id");
    if (rc == 0 && argc > at + 1 && strcmp(argv[at], "--keep") == 0) {
        rc = parse_keep(argv[at + 1], &l.keep_fds, &err);
        at += 2;
    }
    if (rc == 0 && argc > at && strcmp(argv[at], "--input") == 0) {
        l.keep_input = 1;
        at++;
    }
    if (rc == 0 && (argc < at + 2 || strcmp(argv[at], "--") != 0))
        rc = err_set(&err, ERR_ARG,
                     "usage: launch <parent pid> [--keep N] [--input] -- command "
                     "[args...]");
    if (rc == 0 && (rc = launch_prepare(&l, &err)) == 0) {
        if (!l.keep_input)
            confine_calls(CONFINE_ENVIRONMENT);
        (void)execvp(argv[at + 1], argv + at + 1);
        rc = err_errno(&err, "%s", argv[at + 1]);
    }
    (void)fprintf(stderr, "brood-agent launch: %s\n", err.msg);
    return rc == -ENOMEM || rc == -EAGAIN ? AGENT_EXIT_TRY_LATER : AGENT_EXIT_NO_RESPAWN;
}
