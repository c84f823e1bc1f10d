#include "common/err/err.h"

#include "common/text/plain_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *err_text(int code)
{
    switch (code) {
#define ERR_CASE(name, number, text)                                                     \
    case name:                                                                           \
        return text;
        ERR_MAP(ERR_CASE)
#undef ERR_CASE
    case 0:
        return "no error";
    default:
        return code > -4096 && code < 0 ? strerror(-code) : "unknown error";
    }
}

static void __attribute__((format(printf, 2, 0)))
set_line(char ret[ERR_MSG_BYTES], const char *fmt, va_list ap)
{
    char text[ERR_MSG_BYTES];
    int len = vsnprintf(text, sizeof(text), fmt, ap);

    if (len >= (int)sizeof(text)) {
        len = (int)sizeof(text) - 1;
        len -= (int)plain_text_unfinished(text, (size_t)len);
    }
    for (int i = 0; i < len; i++) /* one line, whatever was formatted into it */
        if (text[i] == '\n' || text[i] == '\t')
            text[i] = ' ';
    (void)plain_text(ret, ERR_MSG_BYTES, text, len > 0 ? (size_t)len : 0);
}

static void __attribute__((format(printf, 2, 3)))
set_line_of(char ret[ERR_MSG_BYTES], const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_line(ret, fmt, ap);
    va_end(ap);
}

int err_vset(struct err *err, int code, const char *fmt, va_list ap)
{
    if (err == NULL)
        return code;
    /* first, because the arguments may be fields of err */
    set_line(err->msg, fmt, ap);
    err->code = code;
    err->from_peer = err->line = 0;
    err->cause = 0;
    err->file[0] = err->key[0] = err->agent[0] = err->tensor[0] = '\0';
    return code;
}

int err_is_failure(int code)
{
    static const int codes[] = {ERR_AGENT, -ENOMEM, -EAGAIN, -EMFILE, -ENFILE,
                                -ENOBUFS,  -ENOLCK, -EINTR,  -ENOSPC, -EDQUOT,
                                -EFBIG,    -EIO,    -EROFS};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (code == codes[i])
            return 1;
    return 0;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)err_vset(err, code, fmt, ap);
    va_end(ap);
    return code;
}

/* Like strerror, except for codes that beneath.h gives another meaning. */
static const char *errno_text(int code)
{
    switch (code) {
    case ELOOP:
        return "a symbolic link, which is not followed here";
    case EMLINK:
        return "one of several names of a file of somebody else's: not opened for "
               "writing";
    case ENODATA:
        return "a fifo that nobody opens for writing";
    case ENXIO:
        return "not a regular file";
    default:
        return strerror(code);
    }
}

int err_errno(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    char what[sizeof(err->msg)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return err_set(err, saved != 0 ? -saved : ERR_IO, "%s: %s", what, errno_text(saved));
}

/* ---- places ---- */

/* Sets ret to "file:line: key: ", without the parts that are not known. */
static void describe_place(char ret[ERR_MSG_BYTES], const struct err_place *at)
{
    char line[32] = "";
    const char *file = at->file != NULL ? at->file : "";
    const char *key = at->key != NULL ? at->key : "";

    if (at->line > 0)
        (void)snprintf(line, sizeof(line),
                       *file != '\0' ? "%d: " : "line %d: ", at->line);
    else if (*file != '\0')
        (void)snprintf(line, sizeof(line), " ");
    set_line_of(ret, "%s%s%s%s%s", file, *file != '\0' ? ":" : "", line, key,
                *key != '\0' ? ": " : "");
}

static void note_name(char *field, size_t size, const char *name)
{
    char text[ERR_MSG_BYTES];

    if (name == NULL || field[0] != '\0')
        return;
    set_line_of(text, "%.*s", (int)size - 1, name);
    (void)snprintf(field, size, "%.*s", (int)size - 1, text);
}

int err_note(struct err *err, const struct err_place *at)
{
    if (err == NULL)
        return ERR_IO;
    note_name(err->file, sizeof(err->file), at->file);
    note_name(err->key, sizeof(err->key), at->key);
    note_name(err->agent, sizeof(err->agent), at->agent);
    note_name(err->tensor, sizeof(err->tensor), at->tensor);
    if (err->line == 0)
        err->line = at->line;
    return err->code;
}

/* Puts the context before the message. The context is plain text and ends with a
 * separator. */
static void put_before(struct err *err, const char *context)
{
    char inner[ERR_MSG_BYTES];

    memcpy(inner, err->msg, sizeof(inner));
    set_line_of(err->msg, "%s%s", context, inner);
    err->cause += (unsigned)strlen(context);
    if (err->cause > strlen(err->msg))
        err->cause = (unsigned)strlen(err->msg);
}

int err_vset_at(struct err *err, int code, const struct err_place *at, const char *fmt,
                va_list ap)
{
    struct err new = {.code = code};
    char context[ERR_MSG_BYTES];

    set_line(new.msg, fmt, ap);
    describe_place(context, at);
    put_before(&new, context);
    (void)err_note(&new, at);
    if (err != NULL)
        *err = new; /* only now, since the arguments may be fields of err */
    return code;
}

int err_set_at(struct err *err, int code, const struct err_place *at, const char *fmt,
               ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)err_vset_at(err, code, at, fmt, ap);
    va_end(ap);
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char context[ERR_MSG_BYTES];
    va_list ap;

    if (err == NULL)
        return ERR_IO;
    va_start(ap, fmt);
    set_line(context, fmt, ap);
    va_end(ap);
    set_line_of(context, "%s: ", context);
    put_before(err, context);
    return err->code;
}

int err_add(struct err *err, const char *fmt, ...)
{
    char more[ERR_MSG_BYTES];
    size_t len;
    va_list ap;

    if (err == NULL)
        return ERR_IO;
    va_start(ap, fmt);
    set_line(more, fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    if (len > err->cause && err->msg[len - 1] == '.')
        len--;
    set_line_of(err->msg, "%.*s; %s", (int)len, err->msg, more);
    return err->code;
}

int err_pass(struct err *err, const struct err *why)
{
    if (err != NULL)
        *err = *why;
    return why->code;
}

const char *err_cause(const struct err *err)
{
    return err->msg + err->cause;
}
