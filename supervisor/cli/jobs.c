#include "supervisor/cli/jobs.h"

#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/node/slurm.h"
#include "supervisor/proc/descriptors.h"
#include "supervisor/proc/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUT, ERR, N_PIPES };
enum { READ_BYTES = 1 << 16, TICK_MS = 100, INTERRUPT_MS = 5000 };

struct process {
    const struct job *of;
    pid_t pid;                 /* 0: over, or not started yet */
    int place;                 /* among those that run at a time; -1: none */
    int fd[N_PIPES];           /* its stdout and stderr; -1: closed */
    struct wbuf rest[N_PIPES]; /* an incomplete line */
};

struct jobs {
    const struct cli *cli;
    const struct jobs_args *args;
    struct process *job; /* [args->n] */
    size_t n_started, n_live;
    cpu_set_t cores;     /* that this process may use */
    struct rlimit files; /* how many files a job may open, as this command found it */
    int signals;
    char *binary;    /* of this program */
    char *signalled; /* the ids of Slurm's jobs; NULL: none yet */
    int64_t interrupted_ms;
    int is_stopped;  /* by a signal */
    int is_stopping; /* no further one starts */
    int is_broken;   /* one could not be started */
    int code;        /* of the first that failed */
    int meant_code;  /* of one that ended as it was meant to, though not with CLI_DONE */
};

/* ---- output ---- */

/* Prefixes the line with the run's name, unless it begins with it. */
static void print_message(const struct jobs *js, const struct process *j,
                          const char *line, size_t len)
{
    const size_t n = strlen(j->of->run);
    const int is_named = len > n && strncmp(line, j->of->run, n) == 0 && line[n] == ':';
    char *text = xasprintf("%s%s%.*s", is_named ? "" : j->of->run, is_named ? "" : ": ",
                           (int)len, line);

    if (js->args->on_line != NULL)
        js->args->on_line(js->args->ctx, text, strlen(text) - 1);
    else
        (void)fputs(text, stderr);
    free(text);
}

static void print_lines(const struct jobs *js, struct process *j, int which)
{
    static const char start[] = "\"event\": \"start\"";
    struct wbuf *rest = &j->rest[which];
    size_t at = 0;
    char *end;

    while (at < rest->len &&
           (end = memchr(rest->data + at, '\n', rest->len - at)) != NULL) {
        const char *line = (const char *)rest->data + at;
        const size_t len = (size_t)(end + 1 - line);

        if (which == ERR) {
            print_message(js, j, line, len);
        } else if (js->cli->json && len > 2 && line[0] == '{' &&
                   memmem(line, len, start, strlen(start)) == NULL) {
            /* name the run; the first object, `start`, has the name already */
            (void)printf("{\"run\": \"%s\", ", j->of->run);
            (void)fwrite(line + 1, 1, len - 1, stdout);
        } else {
            (void)fwrite(line, 1, len, stdout);
        }
        at += len;
    }
    memmove(rest->data, rest->data + at, rest->len - at);
    rest->len -= at;
    (void)fflush(stdout);
}

/* Reads the output that has arrived; closes the pipe at its end. */
static void take_output(const struct jobs *js, struct process *j, int which)
{
    struct wbuf *rest = &j->rest[which];
    ssize_t n;

    do {
        wbuf_reserve(rest, READ_BYTES);
        n = read(j->fd[which], rest->data + rest->len, READ_BYTES);
        if (n > 0) {
            rest->len += (size_t)n;
            print_lines(js, j, which);
        }
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0 && errno == EAGAIN)
        return;
    (void)close(j->fd[which]);
    j->fd[which] = -1;
}

/* ---- cores ---- */

/* The lowest place that no live job has. */
static int free_place(const struct jobs *js)
{
    for (int place = 0;; place++) {
        int taken = 0;

        for (size_t i = 0; i < js->n_started; i++)
            taken |= js->job[i].pid != 0 && js->job[i].place == place;
        if (!taken)
            return place;
    }
}

/* Binds the job to the processors of its place; the counting starts over after the
 * last one. */
static void keep_to_cores(const struct jobs *js, const struct process *j)
{
    const int all = CPU_COUNT(&js->cores), each = js->args->cores;
    cpu_set_t own;
    int number = 0;

    if (each == 0 || each >= all)
        return;
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &js->cores))
            continue;
        for (int k = 0; k < each; k++)
            if ((j->place * each + k) % all == number)
                CPU_SET(cpu, &own);
        number++;
    }
    (void)sched_setaffinity(0, sizeof(own), &own);
}

/* ---- processes ---- */

static void exec_srun(const struct jobs *js, const struct process *j)
{
    size_t n = 0, n_own = 0;
    char **argv;

    while (js->args->srun[n] != NULL)
        n++;
    while (j->of->argv[n_own] != NULL)
        n_own++;
    argv = xcalloc(n + n_own + 1, sizeof(*argv));
    memcpy(argv, js->args->srun, n * sizeof(*argv));
    memcpy(argv + n, j->of->argv, n_own * sizeof(*argv));
    argv[n] = js->binary;
    (void)execvp(argv[0], argv);
    (void)fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
}

static _Noreturn void become(const struct jobs *js, const struct process *j,
                             const int ends[N_PIPES], pid_t parent)
{
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CLI_FAILED);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(ends[OUT], STDOUT_FILENO);
    (void)dup2(ends[ERR], STDERR_FILENO);
    (void)close(js->signals);
    (void)setrlimit(RLIMIT_NOFILE, &js->files);
    keep_to_cores(js, j);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (js->args->srun != NULL)
        exec_srun(js, j);
    else
        (void)execv("/proc/self/exe", j->of->argv);
    (void)dprintf(STDERR_FILENO, "brood run: %s cannot be executed: %s\n",
                  js->args->srun != NULL ? "srun" : "this program", strerror(errno));
    _exit(CLI_FAILED);
}

static int start(struct jobs *js, struct process *j, struct err *err)
{
    const pid_t parent = getpid();
    int ends[N_PIPES] = {-1, -1};
    int rc = 0;

    for (int i = 0; i < N_PIPES; i++) {
        int pair[2];

        if (rc == 0 && pipe2(pair, O_CLOEXEC) < 0)
            rc = err_errno(err, "pipe");
        if (rc < 0)
            continue;
        j->fd[i] = pair[0];
        ends[i] = pair[1];
        (void)fcntl(j->fd[i], F_SETFL, O_NONBLOCK);
    }
    j->place = free_place(js);
    if (rc == 0 && (j->pid = fork()) == 0)
        become(js, j, ends, parent);
    if (rc == 0 && j->pid < 0)
        rc = err_errno(err, "fork");
    if (rc < 0)
        j->pid = 0;
    else
        (void)setpgid(j->pid, j->pid); /* before a signal is forwarded */
    for (int i = 0; i < N_PIPES; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]);
    js->n_live += rc == 0;
    return rc;
}

static void start_more(struct jobs *js)
{
    struct err err = {0};

    while (!js->is_stopping && js->n_live < js->args->at_once &&
           js->n_started < js->args->n) {
        struct process *j = &js->job[js->n_started++];

        if (start(js, j, &err) < 0) {
            js->code = cli_fail(js->cli, CLI_FAILED, &err);
            js->is_stopping = js->is_broken = 1;
        } else if (js->args->on_start != NULL) {
            js->args->on_start(js->args->ctx, js->n_started - 1);
        }
    }
}

static void reap(struct jobs *js)
{
    for (size_t i = 0; i < js->n_started; i++) {
        struct process *j = &js->job[i];
        int status, code;

        if (j->pid == 0 || waitpid(j->pid, &status, WNOHANG) != j->pid)
            continue;
        j->pid = 0;
        js->n_live--;
        code = WIFEXITED(status) ? WEXITSTATUS(status)
                                 : RUN_EXIT_SIGNALLED + WTERMSIG(status);
        for (int k = 0; k < N_PIPES; k++)
            if (j->fd[k] >= 0)
                take_output(js, j, k);
        if (code != CLI_DONE && js->args->is_meant != NULL &&
            js->args->is_meant(js->args->ctx, i, code)) {
            js->meant_code = code;
        } else {
            if (js->code == CLI_DONE)
                js->code = code;
            js->is_stopping |= code != CLI_DONE && !js->args->goes_on;
        }
        if (js->args->on_end != NULL)
            js->args->on_end(js->args->ctx, i, code);
    }
}

/* ---- signals ---- */

static void forward(const struct jobs *js, int signum)
{
    for (size_t i = 0; i < js->n_started; i++)
        if (js->job[i].pid != 0)
            (void)signal_process(js->job[i].pid,
                                 js->args->srun != NULL && signum != SIGCONT ? SIGTERM
                                                                             : signum);
}

/* Interrupts the jobs through Slurm: a signal to srun would end srun, but not its job. */
static void interrupt(struct jobs *js)
{
    slurm_interrupt(js->args->srun_name, &js->signalled);
    js->interrupted_ms = monotonic_ms();
}

static void take_signal(struct jobs *js)
{
    struct signalfd_siginfo info;

    if (read(js->signals, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGCHLD) {
        reap(js);
    } else if (info.ssi_signo == SIGTSTP) {
        if (js->args->srun == NULL) /* jobs elsewhere continue */
            forward(js, SIGTSTP);
        if (js->args->on_suspend != NULL)
            js->args->on_suspend(js->args->ctx);
        (void)raise(SIGSTOP);
    } else if (js->args->srun != NULL && info.ssi_signo != SIGCONT && !js->is_stopped) {
        js->is_stopped = js->is_stopping = 1;
        interrupt(js);
    } else {
        js->is_stopped |= info.ssi_signo != SIGCONT;
        js->is_stopping |= js->is_stopped;
        forward(js, (int)info.ssi_signo);
    }
}

/* ---- the loop ---- */

static void wait_for_something(struct jobs *js)
{
    const int is_interrupted = js->args->srun != NULL && js->is_stopped;
    const int ticks = is_interrupted || js->args->on_tick != NULL;
    const size_t room = 1 + N_PIPES * js->n_started;
    struct pollfd *fds = xcalloc(room, sizeof(*fds));
    size_t *of = xcalloc(room, sizeof(*of)); /* job * N_PIPES + pipe */
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = js->signals, .events = POLLIN};
    /* poll refuses more entries than files may be open, also of closed ones */
    for (size_t i = 0; i < js->n_started * N_PIPES; i++) {
        const int fd = js->job[i / N_PIPES].fd[i % N_PIPES];

        if (fd < 0)
            continue;
        of[n] = i;
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    if (poll(fds, n, ticks ? TICK_MS : -1) > 0) {
        for (nfds_t i = 1; i < n; i++)
            if (fds[i].revents != 0)
                take_output(js, &js->job[of[i] / N_PIPES], (int)(of[i] % N_PIPES));
        if (fds[0].revents != 0)
            take_signal(js);
    }
    free(of);
    free(fds);
    if (is_interrupted && js->n_live > 0 &&
        monotonic_ms() - js->interrupted_ms > INTERRUPT_MS)
        interrupt(js);
    if (js->args->on_tick != NULL)
        js->args->on_tick(js->args->ctx);
}

int jobs_run(const struct cli *cli, const struct jobs_args *args, int *ret_stopped)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGCHLD};
    struct jobs js = {
        .cli = cli, .args = args, .job = xcalloc(args->n + 1, sizeof(struct process))};
    struct err err = {0};

    for (size_t i = 0; i < args->n; i++)
        js.job[i] = (struct process){.of = &args->jobs[i], .place = -1, .fd = {-1, -1}};
    CPU_ZERO(&js.cores);
    (void)sched_getaffinity(0, sizeof(js.cores), &js.cores);
    js.binary = args->srun != NULL ? realpath("/proc/self/exe", NULL) : NULL;
    js.signals = signals_watch(watched, sizeof(watched) / sizeof(watched[0]));
    (void)getrlimit(RLIMIT_NOFILE, &js.files);
    descriptors_raise();
    if (js.signals < 0) {
        (void)err_errno(&err, "signalfd");
        js.code = cli_fail(cli, CLI_FAILED, &err);
        js.is_stopping = js.is_broken = 1;
    }
    for (start_more(&js); js.n_live > 0; start_more(&js))
        wait_for_something(&js);
    for (size_t i = 0; i < args->n; i++) {
        for (int k = 0; k < N_PIPES; k++) {
            if (js.job[i].fd[k] >= 0)
                (void)close(js.job[i].fd[k]);
            wbuf_done(&js.job[i].rest[k]);
        }
    }
    if (js.signals >= 0)
        (void)close(js.signals);
    free(js.job);
    free(js.binary);
    free(js.signalled);
    if (ret_stopped != NULL)
        *ret_stopped = js.is_stopped ? CLI_STOPPED : js.is_broken ? CLI_FAILED : CLI_DONE;
    return js.code != CLI_DONE ? js.code : js.meant_code;
}
