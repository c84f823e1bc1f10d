/* err.h - expected failures: a code for the program, a line for the person.
 *
 * A function that can fail for reasons outside the program returns int: 0 or a
 * negative code. libuv's codes (-4095 and above) pass through unchanged; the program's
 * own lie below them. Where a person will read the cause, the last parameter is a
 * `struct err`, which may be NULL. It is filled on failure and left alone on success.
 *
 * The message is for people only. What a program needs (the key, the line, whether a peer
 * returned the error) is in separate fields; no code searches the message.
 *
 * Programming errors are not reported this way: see check.h.
 */
#ifndef COMMON_ERR_ERR_H
#define COMMON_ERR_ERR_H

#include <stdarg.h>

/* name, code, default message */
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
    X(ERR_AGENT, -5018, "agent failed")                                                  \
    X(ERR_INTERRUPTED, -5019, "interrupted")

enum err_code {
#define ERR_ENUM(name, code, text) name = code,
    ERR_MAP(ERR_ENUM)
#undef ERR_ENUM
};

/* The place of an error; NULL and 0: not known. */
struct err_place {
    const char *file; /* or an option that gave the value, such as "--set KEY=VALUE" */
    int line;         /* of the file, from 1 */
    const char *key;  /* of a configuration, or of a message's params */
    const char *agent;
    const char *tensor;
};
#define ERR_AT(...) (&(const struct err_place){__VA_ARGS__})

enum { ERR_MSG_BYTES = 480, ERR_FILE_BYTES = 161, ERR_NAME_BYTES = 128 };

struct err {
    int code;                /* 0 or negative */
    int from_peer;           /* 1: a peer returned this error, with this code and cause */
    int line;                /* of err_place, as are the names; 0 and "": not known */
    unsigned cause;          /* private: err_cause */
    char msg[ERR_MSG_BYTES]; /* one plain line (plain_text.h); cut at its end if longer */
    char file[ERR_FILE_BYTES], key[ERR_NAME_BYTES], agent[ERR_NAME_BYTES],
        tensor[ERR_NAME_BYTES]; /* plain text like msg */
};

/* The default message of one of the codes above, or of errno if 0 > code > -4096. */
const char *err_text(int code);

/* 1 if the code says nothing against what the user wrote: a process was killed (ERR_AGENT), a
 * system call found no memory, descriptor or process, or a disk is full, broken or read-only.
 * Not ERR_NOMEM: this machine is too small for what the configuration asks for. */
int err_is_failure(int code);

/* Sets code and message, clears the place, and returns code, as in
 * `return err_set(err, ERR_SHAPE, ...)`. */
int err_set(struct err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int err_vset(struct err *err, int code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Sets -errno with "<what>: <strerror>", and returns it. */
int err_errno(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets a message that begins with the place, "file:line: key: <what>", without the parts that
 * are not known, and copies `at` into the fields. Returns code. */
int err_set_at(struct err *err, int code, const struct err_place *at, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
int err_vset_at(struct err *err, int code, const struct err_place *at, const char *fmt,
                va_list ap) __attribute__((format(printf, 4, 0)));

/* The next three functions modify an error that is set, and return its code, or ERR_IO if
 * err is NULL. */

/* Puts "<context>: " before the message. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fills in fields of the place that are not known yet; does not change the message. */
int err_note(struct err *err, const struct err_place *at);
/* Appends "; <more>" to the message, replacing a full stop at its end. */
int err_add(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copies *why, with its fields; err may be NULL. Returns its code. */
int err_pass(struct err *err, const struct err *why);
/* The message without the place and the contexts that were put before it. */
const char *err_cause(const struct err *err);

#endif
