#include "supervisor/proc/pid_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t pid_file_read(pid_t pid, const char *file, char *ret, size_t size)
{
    char path[64];
    ssize_t n;
    int fd;

    ret[0] = '\0';
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, ret, size - 1);
    (void)close(fd);
    ret[n < 0 ? 0 : n] = '\0';
    return n;
}

/* Reads fields 3, 4, 14 and 15 of "pid (comm) state ppid ...". The command may itself
 * contain ") ", so fields are counted from the last parenthesis. */
int pid_stat_read(pid_t pid, struct pid_stat *ret)
{
    char text[1024];
    const char *end;
    unsigned long user, system, pages;
    int parent;

    if (pid_file_read(pid, "stat", text, sizeof(text)) <= 0 ||
        (end = strrchr(text, ')')) == NULL ||
        sscanf(
            end + 1,
            " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d "
            "%*u %*u %lu",
            &ret->state, &parent, &user, &system, &pages) != 5)
        return -1;
    ret->parent = parent;
    ret->ticks = user + system;
    ret->resident_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

/* Field number `field`, from 4 on, of the text after the last parenthesis. */
static unsigned long stat_field(const char *text, int field)
{
    for (int at = 2; at < field && text != NULL; at++)
        text = strchr(text + 1, ' ');
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

/* Fields 23, the size of its memory; 26, where its code begins, which execve sets last; 50 and
 * 51, where its environment begins and ends. */
int pid_has_environment(pid_t pid)
{
    char text[1024];
    const char *end;

    return pid_file_read(pid, "stat", text, sizeof(text)) > 0 &&
           (end = strrchr(text, ')')) != NULL && stat_field(end, 23) > 0 &&
           (stat_field(end, 26) == 0 || stat_field(end, 51) > stat_field(end, 50));
}
