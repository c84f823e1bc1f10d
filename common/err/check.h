/* check.h - CHECK: programming errors end the process, in every build.
 *
 * CHECK(cond) or CHECK(cond, "rows %d of %d", i, n) prints file, line, condition and
 * values to stderr and aborts. Never used on anything read from a file, a pipe or a user.
 */
#ifndef COMMON_ERR_CHECK_H
#define COMMON_ERR_CHECK_H

#define CHECK(cond, ...)                                                                 \
    (__builtin_expect(!!(cond), 1)                                                       \
         ? (void)0                                                                       \
         : check_failed(__FILE__, __LINE__, #cond, "" __VA_ARGS__))

_Noreturn void check_failed(const char *file, int line, const char *cond, const char *fmt,
                            ...) __attribute__((format(printf, 4, 5)));

#endif
