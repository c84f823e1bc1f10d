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

/* One error is one line and commands no terminal, whatever went into it. */
static void make_plain_line(char *ret, size_t size, char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n' || text[i] == '\t')
            text[i] = ' ';
    (void)plain_text(ret, size, text, len);
}

int err_vset(struct err *err, int code, const char *fmt, va_list ap)
{
    char text[sizeof(err->msg)];
    int len;

    if (err == NULL)
        return code;
    len = vsnprintf(text, sizeof(text), fmt, ap);
    if (len >= (int)sizeof(text)) {
        len = (int)sizeof(text) - 1;
        len -= (int)plain_text_unfinished(text, (size_t)len);
    }
    err->code = code;
    make_plain_line(err->msg, sizeof(err->msg), text, len > 0 ? (size_t)len : 0);
    return code;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)err_vset(err, code, fmt, ap);
    va_end(ap);
    return code;
}

/* As strerror; of the codes that beneath.h gives a meaning, that. */
static const char *errno_text(int code)
{
    switch (code) {
    case ELOOP:
        return "a symbolic link, which is not followed here";
    case EMLINK:
        return "one of several names of a file of somebody else's: not opened for "
               "writing";
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

int err_wrap(struct err *err, const char *fmt, ...)
{
    char inner[sizeof(err->msg)];
    char context[sizeof(err->msg)];
    va_list ap;

    if (err == NULL)
        return ERR_IO;
    memcpy(inner, err->msg, sizeof(inner));
    va_start(ap, fmt);
    (void)vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);
    return err_set(err, err->code, "%s: %s", context, inner);
}
