#include "supervisor/proc/resident.h"

#include "supervisor/proc/pid_file.h"

#include <stdlib.h>
#include <string.h>

/* The value of a line such as "RssAnon:\t 1234 kB"; -1: there is no such line. */
static int64_t field_bytes(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoll(at + strlen(name), NULL, 10) * 1024 : -1;
}

int64_t resident_own_bytes(pid_t pid)
{
    char text[4096];

    return pid_file_read(pid, "status", text, sizeof(text)) < 0
               ? -1
               : field_bytes(text, "\nRssAnon:");
}

int64_t resident_bytes(pid_t pid)
{
    char text[4096];
    int64_t anon, shared;

    if (pid_file_read(pid, "status", text, sizeof(text)) < 0)
        return -1;
    anon = field_bytes(text, "\nRssAnon:");
    shared = field_bytes(text, "\nRssShmem:");
    return anon < 0 || shared < 0 ? -1 : anon + shared;
}
