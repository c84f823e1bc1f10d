#include "common/err/err.h"

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

/* One error is one line, whatever went into it. */
static void make_one_line(char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20)
            *s = ' ';
    }
}

int err_vset(struct err *err, int code, const char *fmt, va_list ap)
{
    if (err != NULL) {
        err->code = code;
        (void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        make_one_line(err->msg);
    }
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
