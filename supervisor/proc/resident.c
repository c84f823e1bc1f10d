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

static int64_t status_bytes(pid_t pid, const char *name)
{
    char text[4096];

    return pid_file_read(pid, "status", text, sizeof(text)) < 0 ? -1
                                                                : field_bytes(text, name);
}

int64_t resident_own_bytes(pid_t pid)
{
    return status_bytes(pid, "\nRssAnon:");
}

int64_t resident_data_bytes(pid_t pid)
{
    return status_bytes(pid, "\nVmData:");
}

/* A page that was written to is dirty, and private if only this process has it. */
int64_t resident_inherited_bytes(pid_t pid)
{
    char text[4096];
    int64_t anonymous, private;

    if (pid_file_read(pid, "smaps_rollup", text, sizeof(text)) < 0)
        return 0;
    anonymous = field_bytes(text, "\nAnonymous:");
    private = field_bytes(text, "\nPrivate_Dirty:");
    return anonymous > private && private >= 0 ? anonymous - private : 0;
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
