/* probing_agent.c - brood-agent that tries, in its first `act`, everything that an agent
 * must not be able to do, and then works normally.
 *
 * Each attempt is a line of its log: "probe NAME 0" if it succeeded, or the errno.
 * BROOD_FAULT names the file that it attacks. The agent's own sources are unchanged: the
 * linker wraps service_handle, so that the attempts run where a graph's code would run.
 */
#include "agent/agent.h"
#include "agent/loop/service.h"
#include "common/msg/protocol.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

int __real_service_handle(void *ctx, const struct msg *request, struct msg_out *out);
int __wrap_service_handle(void *ctx, const struct msg *request, struct msg_out *out);

static const char *victim; /* a file of 5 bytes */
static char beside[4096];  /* a file that does not exist */

/* Each returns a negative number, and sets errno, if the attempt fails. */

static int executes(void)
{
    static char name[] = "true";
    char *argv[] = {name, NULL};

    return execve("/bin/true", argv, environ);
}

static int forks(void)
{
    const pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return pid < 0 ? -1 : waitpid(pid, NULL, 0);
}

static void *run_thread(void *arg)
{
    return arg;
}

static int makes_a_thread(void)
{
    pthread_t t;

    errno = pthread_create(&t, NULL, run_thread, NULL);
    return errno != 0 ? -1 : pthread_join(t, NULL);
}

static int connects(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}

static int talks_locally(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int pairs_sockets(void)
{
    int fds[2];

    return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static int traces(void)
{
    return (int)ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
}

static int reads_memory(void)
{
    char byte;
    struct iovec own = {&byte, 1}, others = {&byte, 1};

    return (int)process_vm_readv(getppid(), &own, 1, &others, 1, 0);
}

static int opens_memory(void)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)getppid());
    return open(path, O_RDONLY);
}

static int signals(void)
{
    return kill(getppid(), SIGCONT);
}

static int signals_everybody(void)
{
    return kill(-1, 0);
}

static int signals_a_thread(void)
{
    return (int)syscall(SYS_tgkill, getppid(), getppid(), SIGCONT);
}

static int holds_a_process(void)
{
    return (int)syscall(SYS_pidfd_open, getppid(), 0);
}

static int limits_others(void)
{
    const struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};

    return prlimit(getppid(), RLIMIT_CPU, &r, NULL);
}

static int raises_its_limits(void)
{
    const struct rlimit r = {1000, 1000};

    return setrlimit(RLIMIT_NOFILE, &r);
}

static int moves_others(void)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    return sched_setaffinity(getppid(), sizeof(all), &all);
}

static int slows_others(void)
{
    return setpriority(PRIO_PROCESS, (id_t)getppid(), 1);
}

static int slows_reads_of_others(void)
{
    return (int)syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, getppid(), 3 << 13);
}

/* A signal to the owner whenever the pipe can be read. */
static int signals_by_a_pipe(void)
{
    return fcntl(AGENT_FD_IN, F_SETOWN, getppid());
}

static int signals_by_a_pipe_to_a_thread(void)
{
    const struct f_owner_ex owner = {F_OWNER_PID, getppid()};

    return fcntl(AGENT_FD_IN, F_SETOWN_EX, &owner);
}

static int chooses_the_signal(void)
{
    return fcntl(AGENT_FD_IN, F_SETSIG, SIGCONT);
}

static int waits_for_openers(void)
{
    return fcntl(AGENT_FD_LOG, F_SETLEASE, F_RDLCK);
}

static int outlives_its_parent(void)
{
    return prctl(PR_SET_PDEATHSIG, 0);
}

static int shows_its_memory(void)
{
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* Its name as it is, so that it changes nothing if it is allowed. */
static int names_the_machine(void)
{
    char name[65] = "";

    return gethostname(name, sizeof(name) - 1) < 0 ? 0 : sethostname(name, strlen(name));
}

/* To an impossible time. */
static int sets_the_clock(void)
{
    const struct timespec t = {-1, -1};

    return (int)syscall(SYS_clock_settime, CLOCK_REALTIME, &t);
}

static int writes_to_the_kernel_log(void)
{
    return klogctl(10 /* SYSLOG_ACTION_SIZE_BUFFER */, NULL, 0);
}

static int takes_a_page_from_the_machine(void)
{
    return madvise(NULL, 0, MADV_HWPOISON);
}

static int becomes_another_user(void)
{
    return setuid(getuid());
}

static int overwrites(void)
{
    return open(victim, O_WRONLY | O_TRUNC);
}

static int appends(void)
{
    return open(victim, O_RDWR | O_APPEND);
}

static int creates(void)
{
    return open(beside, O_WRONLY | O_CREAT, 0600);
}

static int truncates(void)
{
    return truncate(victim, 0);
}

static int removes(void)
{
    return unlink(victim);
}

static int renames(void)
{
    return rename(victim, beside);
}

static int makes_a_folder(void)
{
    return mkdir(beside, 0700);
}

static int links(void)
{
    return link(victim, beside);
}

static int links_by_name(void)
{
    return symlink("/etc/passwd", beside);
}

static int changes_mode(void)
{
    return chmod(victim, 0777);
}

static int changes_owner(void)
{
    return chown(victim, getuid(), getgid());
}

static int changes_attributes(void)
{
    return setxattr(victim, "user.brood", "x", 1, 0);
}

static int writes_the_log(void)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", AGENT_FD_LOG);
    return open(path, O_RDWR);
}

static int maps_the_log(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, AGENT_FD_LOG, 0);

    return p == MAP_FAILED ? -1 : 0;
}

static int mounts(void)
{
    return mount("none", "/", "tmpfs", MS_REMOUNT | MS_BIND, NULL);
}

static int loads_bpf(void)
{
    union bpf_attr a;

    memset(&a, 0, sizeof(a));
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
}

static int makes_a_ring(void)
{
    struct io_uring_params p;

    memset(&p, 0, sizeof(p));
    return (int)syscall(SYS_io_uring_setup, 1, &p);
}

static int reads_a_file(void)
{
    return open(victim, O_RDONLY);
}

static int lists_a_folder(void)
{
    return opendir("/") != NULL ? 0 : -1;
}

static int opens_many(void)
{
    int fd = 0;

    for (int i = 0; i < 100 && fd >= 0; i++)
        fd = dup(STDERR_FILENO);
    return fd;
}

static const struct {
    const char *name;
    int (*attempt)(void);
} probes[] = {
    {"executes", executes},
    {"forks", forks},
    {"makes_a_thread", makes_a_thread},
    {"connects", connects},
    {"talks_locally", talks_locally},
    {"pairs_sockets", pairs_sockets},
    {"traces", traces},
    {"reads_memory", reads_memory},
    {"opens_memory", opens_memory},
    {"signals", signals},
    {"signals_everybody", signals_everybody},
    {"signals_a_thread", signals_a_thread},
    {"holds_a_process", holds_a_process},
    {"limits_others", limits_others},
    {"raises_its_limits", raises_its_limits},
    {"moves_others", moves_others},
    {"slows_others", slows_others},
    {"slows_reads_of_others", slows_reads_of_others},
    {"signals_by_a_pipe", signals_by_a_pipe},
    {"signals_by_a_pipe_to_a_thread", signals_by_a_pipe_to_a_thread},
    {"chooses_the_signal", chooses_the_signal},
    {"waits_for_openers", waits_for_openers},
    {"outlives_its_parent", outlives_its_parent},
    {"shows_its_memory", shows_its_memory},
    {"names_the_machine", names_the_machine},
    {"sets_the_clock", sets_the_clock},
    {"writes_to_the_kernel_log", writes_to_the_kernel_log},
    {"takes_a_page_from_the_machine", takes_a_page_from_the_machine},
    {"becomes_another_user", becomes_another_user},
    {"overwrites", overwrites},
    {"appends", appends},
    {"creates", creates},
    {"truncates", truncates},
    {"removes", removes},
    {"renames", renames},
    {"makes_a_folder", makes_a_folder},
    {"links", links},
    {"links_by_name", links_by_name},
    {"changes_mode", changes_mode},
    {"changes_owner", changes_owner},
    {"changes_attributes", changes_attributes},
    {"writes_the_log", writes_the_log},
    {"maps_the_log", maps_the_log},
    {"mounts", mounts},
    {"loads_bpf", loads_bpf},
    {"makes_a_ring", makes_a_ring},
    {"reads_a_file", reads_a_file},
    {"lists_a_folder", lists_a_folder},
    {"opens_many", opens_many},
};

int __wrap_service_handle(void *ctx, const struct msg *request, struct msg_out *out)
{
    static int is_done;

    if (!is_done && strcmp(request->method, "act") == 0) {
        is_done = 1;
        victim = getenv("BROOD_FAULT");
        (void)snprintf(beside, sizeof(beside), "%s.beside", victim);
        for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
            errno = 0;
            (void)fprintf(stderr, "probe %s %d\n", probes[i].name,
                          probes[i].attempt() < 0 ? errno : 0);
        }
        for (int fd = AGENT_FD_COUNT; fd < 100; fd++)
            (void)close(fd);
    }
    return __real_service_handle(ctx, request, out);
}

int main(int argc, char **argv)
{
    return agent_main(argc, argv, NULL);
}
