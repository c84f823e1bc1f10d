#include "supervisor/proc/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "RssAnon:\t    1234 kB" somewhere in the text; -1: it is not. */
static int64_t field_bytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoll(at + strlen(name), NULL, 10) * 1024 : -1;
}

int64_t resident_bytes(pid_t pid)
{
    char path[48], text[4096];
    int64_t anon, shared;
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n < 0)
        return -1;
    text[n] = '\0';
    anon = field_bytes(text, "\nRssAnon:");
    shared = field_bytes(text, "\nRssShmem:");
    return anon < 0 || shared < 0 ? -1 : anon + shared;
}
