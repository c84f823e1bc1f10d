#include "supervisor/proc/stall.h"

#include "supervisor/proc/pid_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* The calls in which a supervisor can be for long. */
static const struct {
    long number;
    const char *name;
} calls[] = {
    {SYS_read, "read"},           {SYS_write, "write"},
    {SYS_pread64, "pread"},       {SYS_pwrite64, "pwrite"},
    {SYS_openat, "openat"},       {SYS_close, "close"},
    {SYS_fsync, "fsync"},         {SYS_fdatasync, "fdatasync"},
    {SYS_fallocate, "fallocate"}, {SYS_ftruncate, "ftruncate"},
    {SYS_unlinkat, "unlinkat"},   {SYS_renameat2, "rename"},
    {SYS_getdents64, "getdents"}, {SYS_futex, "futex"},
    {SYS_epoll_pwait, "epoll"},   {SYS_wait4, "wait"},
    {SYS_flock, "flock"},         {SYS_fcntl, "fcntl"},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll"},
#endif
#ifdef SYS_rename
    {SYS_rename, "rename"},
#endif
#ifdef SYS_unlink
    {SYS_unlink, "unlink"},
#endif
};

static char state_of(pid_t pid)
{
    struct pid_stat stat;

    return pid_stat_read(pid, &stat) == 0 ? stat.state : '\0';
}

int stall_is_stopped(pid_t pid)
{
    const char state = state_of(pid);

    return state == 'T' || state == 't';
}

pid_t stall_tracer(pid_t pid)
{
    static const char key[] = "\nTracerPid:";
    char text[2048];
    const char *at;

    if (pid_file_read(pid, "status", text, sizeof(text)) < 0)
        return 0;
    at = strstr(text, key);
    return at != NULL ? (pid_t)atoi(at + sizeof(key) - 1) : 0;
}

int stall_is_suspended(pid_t pid)
{
    return state_of(pid) == 'T' && stall_tracer(pid) == 0;
}

/* "" if it is not readable, or in none of these calls. */
static const char *call_of(pid_t pid)
{
    char text[128], *end;
    long number;

    if (pid_file_read(pid, "syscall", text, sizeof(text)) < 0)
        return "";
    number = strtol(text, &end, 10);
    for (size_t i = 0; end != text && i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].number == number)
            return calls[i].name;
    return "";
}

static const char *state_text(char state)
{
    switch (state) {
    case 'D':
        return "it waits for a disk or another device";
    case 'R':
        return "it computes";
    case 'Z':
    case 'X':
    case '\0':
        return "it has ended";
    default:
        return "it waits";
    }
}

const char *stall_text(pid_t pid, char ret[STALL_TEXT_BYTES])
{
    const char state = state_of(pid);
    const pid_t tracer = stall_tracer(pid);
    const char *call = call_of(pid);
    char channel[64];

    if (tracer != 0) {
        (void)snprintf(ret, STALL_TEXT_BYTES, "a debugger (pid %d) holds it",
                       (int)tracer);
    } else if (state == 'T') {
        (void)snprintf(ret, STALL_TEXT_BYTES,
                       "it was stopped by a signal: `kill -CONT %d` continues it",
                       (int)pid);
    } else {
        if (pid_file_read(pid, "wchan", channel, sizeof(channel)) < 0 ||
            strcmp(channel, "0") == 0)
            *channel = '\0'; /* it is not readable */
        (void)snprintf(ret, STALL_TEXT_BYTES, "%s%s%s%s%s%s", state_text(state),
                       *call != '\0' || *channel != '\0' ? " (in " : "", call,
                       *call != '\0' && *channel != '\0' ? ", " : "", channel,
                       *call != '\0' || *channel != '\0' ? ")" : "");
    }
    return ret;
}
