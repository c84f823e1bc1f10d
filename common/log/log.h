/* log.h - one output per process; each line has time, level, role and pid.
 *
 * Format: `2026-01-31T12:00:00.123Z info supervisor[4711]: text`. Library code logs only
 * at the levels verbose and debug; main functions and message handlers report errors,
 * once.
 * Threads: loop thread only.
 */
#ifndef COMMON_LOG_LOG_H
#define COMMON_LOG_LOG_H

#include <time.h>

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_VERBOSE, /* state transitions, snapshots, replays */
    LOG_LEVEL_DEBUG,   /* every frame, too */
};

/* The level of a whole run: `error`, `warning`, `info`, `verbose` or `debug`. The
 * supervisor hands it to its agents. */
#define LOG_LEVEL_VARIABLE "BROOD_LOG"

/* The current time as "2026-01-31T12:00:00.123Z"; returns ret. Allocates nothing after
 * the first call. */
#define LOG_TIME_BYTES 32
const char *log_time(char ret[LOG_TIME_BYTES]);
/* A time of CLOCK_REALTIME in that form. */
const char *log_time_of(struct timespec at, char ret[LOG_TIME_BYTES]);

/* role is copied (at most 63 bytes). Before log_init, lines go to stderr with role
 * "brood". */
void log_init(const char *role, enum log_level max_level, int fd);
void log_set_level(enum log_level max_level);
enum log_level log_get_level(void);
/* The level that LOG_LEVEL_VARIABLE names, or `otherwise` if it names none. */
enum log_level log_level_wanted(enum log_level otherwise);
void log_line(enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_verbose(...)                                                                 \
    (log_get_level() >= LOG_LEVEL_VERBOSE ? log_line(LOG_LEVEL_VERBOSE, __VA_ARGS__)     \
                                          : (void)0)
#define log_debug(...)                                                                   \
    (log_get_level() >= LOG_LEVEL_DEBUG ? log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)         \
                                        : (void)0)

#endif
