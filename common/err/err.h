/* err.h - expected failures: a code for the program, a line for the person.
 *
 * A function that can fail for reasons outside the program returns int: 0 or a
 * negative code. libuv's codes (-4095 and above) pass through unchanged; ours lie below
 * them. Where a person will read the cause, the last parameter is a `struct err`, which
 * may be NULL. It is filled on failure and left alone on success.
 *
 * Errors that are our own mistakes do not come here: see check.h.
 */
#ifndef COMMON_ERR_ERR_H
#define COMMON_ERR_ERR_H

#include <stdarg.h>

/* name, code, what it says when nobody said more */
#define ERR_MAP(X)                                                                       \
    X(ERR_ARG, -5001, "invalid argument")                                                \
    X(ERR_STATE, -5002, "not possible in this state")                                    \
    X(ERR_NOMEM, -5003, "not enough memory")                                             \
    X(ERR_IO, -5004, "input/output error")                                               \
    X(ERR_FORMAT, -5005, "malformed data")                                               \
    X(ERR_CORRUPT, -5006, "checksum mismatch")                                           \
    X(ERR_LIMIT, -5007, "limit exceeded")                                                \
    X(ERR_NOT_FOUND, -5008, "not found")                                                 \
    X(ERR_EXISTS, -5009, "already exists")                                               \
    X(ERR_SHAPE, -5010, "shapes do not fit")                                             \
    X(ERR_DTYPE, -5011, "wrong data type")                                               \
    X(ERR_CONFIG, -5012, "invalid configuration")                                        \
    X(ERR_PROTOCOL, -5013, "protocol violation")                                         \
    X(ERR_UNSUPPORTED, -5014, "not supported")                                           \
    X(ERR_UNINITIALIZED, -5015, "uninitialized")                                         \
    X(ERR_NONFINITE, -5016, "not a finite number")                                       \
    X(ERR_TIMEOUT, -5017, "timed out")                                                   \
    X(ERR_AGENT, -5018, "agent failed")

enum err_code {
#define ERR_ENUM(name, code, text) name = code,
    ERR_MAP(ERR_ENUM)
#undef ERR_ENUM
};

struct err {
    int code;      /* 0 or negative */
    char msg[480]; /* one plain line (plain_text.h); cut at its end if longer */
};

/* The standing text of a code of ours, or of errno when 0 > code > -4096. */
const char *err_text(int code);

/* Sets code and message, and returns code: `return err_set(err, ERR_SHAPE, ...)`. */
int err_set(struct err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int err_vset(struct err *err, int code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Sets -errno with "<what>: <strerror>", and returns it. */
int err_errno(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "<context>: " before the message that is there; returns the code that is there. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
