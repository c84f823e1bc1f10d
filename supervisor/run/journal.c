#include "supervisor/run/journal.h"

#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct journal {
    int fd;
    char *path;
};

int journal_open(struct journal **ret, const char *path, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    struct journal *j;

    if (fd < 0)
        return err_errno(err, "%s", path);
    j = xcalloc(1, sizeof(*j));
    j->fd = fd;
    j->path = xstrdup(path);
    *ret = j;
    return 0;
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    (void)close(j->fd);
    free(j->path);
    free(j);
}

static void put_head(FILE *out, uint64_t env_steps, const char *event)
{
    struct timespec now;
    struct tm utc;
    char date[32];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    (void)fprintf(out, "%s.%03ldZ step=%llu event=%s", date, now.tv_nsec / 1000000,
                  (unsigned long long)env_steps, event);
}

static int is_plain(const char *value)
{
    for (const char *p = value; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '\\')
            return 0;
    return *value != '\0';
}

static void put_value(FILE *out, const char *value)
{
    struct json j = {0};
    const char *text;
    size_t len;

    if (is_plain(value)) {
        (void)fputs(value, out);
        return;
    }
    json_str(&j, value);
    text = json_line(&j, &len);
    (void)fwrite(text, 1, len - 1, out);
    json_done(&j);
}

void journal_write(struct journal *j, uint64_t env_steps, const char *event, ...)
{
    char *line = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&line, &len);
    const char *key;
    va_list ap;

    if (out == NULL)
        return;
    put_head(out, env_steps, event);
    va_start(ap, event);
    while ((key = va_arg(ap, const char *)) != NULL) {
        (void)fprintf(out, " %s=", key);
        put_value(out, va_arg(ap, const char *));
    }
    va_end(ap);
    (void)fputc('\n', out);
    (void)fclose(out);
    if (write(j->fd, line, len) != (ssize_t)len)
        log_warn("%s: cannot write: %m", j->path);
    free(line);
}
