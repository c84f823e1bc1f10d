#include "supervisor/cli/plain_output.h"

#include "common/io/write_all.h"
#include "common/text/plain_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 4096, UNFINISHED_MAX = 3 };

struct plain_stream {
    int fd, is_raw;
    int error;     /* errno of the first write that failed; 0: none did */
    size_t n_kept; /* bytes of a character that the next piece completes */
    char kept[UNFINISHED_MAX];
};

static struct plain_stream out = {.fd = STDOUT_FILENO}, err = {.fd = STDERR_FILENO};

static ssize_t on_write(void *cookie, const char *data, size_t len)
{
    struct plain_stream *s = cookie;
    char text[UNFINISHED_MAX + PIECE_BYTES], shown[sizeof(text) * PLAIN_TEXT_GROWTH + 1];
    int rc = 0;

    for (size_t at = 0; at < len && !s->is_raw && rc == 0; at += PIECE_BYTES) {
        const size_t piece = len - at < PIECE_BYTES ? len - at : PIECE_BYTES;
        size_t n = s->n_kept + piece;

        /* an incomplete character at the end is kept for the next piece */
        memcpy(text, s->kept, s->n_kept);
        memcpy(text + s->n_kept, data + at, piece);
        s->n_kept = plain_text_unfinished(text, n);
        n -= s->n_kept;
        memcpy(s->kept, text + n, s->n_kept);
        rc = write_all(s->fd, shown, plain_text(shown, sizeof(shown), text, n));
    }
    if (s->is_raw)
        rc = write_all(s->fd, data, len);
    if (rc < 0 && s->error == 0)
        s->error = errno;
    return rc < 0 ? 0 : (ssize_t)len;
}

static int on_close(void *cookie)
{
    struct plain_stream *s = cookie;
    char shown[UNFINISHED_MAX * PLAIN_TEXT_GROWTH + 1];
    const size_t n = plain_text(shown, sizeof(shown), s->kept, s->n_kept);

    s->n_kept = 0;
    return write_all(s->fd, shown, n);
}

static FILE *open_stream(struct plain_stream *s, int buffering)
{
    static const cookie_io_functions_t functions = {.write = on_write, .close = on_close};
    FILE *f = fopencookie(s, "w", functions);

    if (f != NULL)
        (void)setvbuf(f, NULL, buffering, 0);
    return f;
}

void plain_output_begin(void)
{
    FILE *new_out = open_stream(&out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    FILE *new_err = open_stream(&err, _IONBF);

    if (new_out != NULL)
        stdout = new_out;
    if (new_err != NULL)
        stderr = new_err;
}

void plain_output_raw(void)
{
    (void)fflush(stdout);
    out.is_raw = 1;
}

int plain_output_error(void)
{
    (void)fflush(stdout);
    return out.error;
}
