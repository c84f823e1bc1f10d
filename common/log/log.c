#include "common/log/log.h"

#include "common/text/plain_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048 };

static struct {
    char role[64];
    enum log_level max_level;
    int fd;
} sink = {"brood", LOG_LEVEL_INFO, STDERR_FILENO};

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warning",
    [LOG_LEVEL_INFO] = "info",   [LOG_LEVEL_VERBOSE] = "verbose",
    [LOG_LEVEL_DEBUG] = "debug",
};

void log_init(const char *role, enum log_level max_level, int fd)
{
    (void)snprintf(sink.role, sizeof(sink.role), "%s", role);
    sink.max_level = max_level;
    sink.fd = fd;
}

void log_set_level(enum log_level max_level)
{
    sink.max_level = max_level;
}

enum log_level log_get_level(void)
{
    return sink.max_level;
}

enum log_level log_level_wanted(enum log_level otherwise)
{
    const char *text = getenv(LOG_LEVEL_VARIABLE);

    for (int i = 0; text != NULL && i <= LOG_LEVEL_DEBUG; i++)
        if (strcmp(text, level_names[i]) == 0)
            return (enum log_level)i;
    return otherwise;
}

const char *log_time_of(struct timespec at, char ret[LOG_TIME_BYTES])
{
    struct tm utc;
    size_t len;

    (void)gmtime_r(&at.tv_sec, &utc);
    len = strftime(ret, LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(ret + len, LOG_TIME_BYTES - len, ".%03ldZ", at.tv_nsec / 1000000);
    return ret;
}

const char *log_time(char ret[LOG_TIME_BYTES])
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return log_time_of(now, ret);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    char text[LINE_BYTES], line[LINE_BYTES], time_text[LOG_TIME_BYTES];
    va_list ap;
    size_t len, room;
    int n;

    if (level > sink.max_level || sink.fd < 0)
        return;
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    len = (size_t)snprintf(line, sizeof(line) - 1, "%s %s %s[%d]: ", log_time(time_text),
                           level_names[level], sink.role, (int)getpid());
    room = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    len += plain_text(line + len, sizeof(line) - 1 - len, text, room);
    line[len++] = '\n';
    /* One write per line, so that lines of several processes do not mix. */
    if (write(sink.fd, line, len) < 0)
        return; /* there is no other place to report it */
}
