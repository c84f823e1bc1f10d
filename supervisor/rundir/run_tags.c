#include "supervisor/rundir/run_tags.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/schema.h"
#include "common/io/beneath.h"
#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LOCKED_WITHIN_MS = 2000 };

static int run_tags_find(const struct run_tags *t, const char *tag)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->tag[i], tag) == 0)
            return (int)i;
    return -1;
}

static int is_note(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return 0;
    return strlen(text) <= RUN_NOTE_MAX_BYTES;
}

/* ---- reading ---- */

int run_tags_read(struct run_tags *ret, const char *path, struct err *err)
{
    char *file = xasprintf("%s/tags", path);
    struct wbuf text = {0};
    int rc = wbuf_read_file(&text, file, RUN_TAGS_FILE_MAX_BYTES, err);

    *ret = (struct run_tags){0};
    if (rc == 0) {
        wbuf_u8(&text, '\0');
        for (char *next = (char *)text.data, *line;
             (line = strsep(&next, "\n")) != NULL;) {
            const char *tag = text_after(line, "tag: "),
                       *note = text_after(line, "note: ");

            if (tag != NULL && ret->n < RUN_TAGS_MAX && schema_is_name(tag) &&
                run_tags_find(ret, tag) < 0)
                ret->tag[ret->n++] = xstrdup(tag);
            else if (note != NULL && ret->note == NULL && is_note(note))
                ret->note = xstrdup(note);
        }
    }
    wbuf_done(&text);
    free(file);
    return rc == -ENOENT ? 0 : rc;
}

void run_tags_done(struct run_tags *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->tag[i]);
    free(t->note);
    *t = (struct run_tags){0};
}

int run_tags_match(const struct run_tags *t, const char *pattern)
{
    for (size_t i = 0; i < t->n; i++)
        if (fnmatch(pattern, t->tag[i], 0) == 0)
            return 1;
    return 0;
}

/* ---- changing ---- */

static int write_tags(const struct run_tags *t, const char *path, struct err *err)
{
    char *file = xasprintf("%s/tags", path);
    struct xstream text;
    FILE *f = xstream_begin(&text);
    int rc;

    for (size_t i = 0; i < t->n; i++)
        (void)fprintf(f, "tag: %s\n", t->tag[i]);
    if (t->note != NULL)
        (void)fprintf(f, "note: %s\n", t->note);
    (void)xstream_end(&text);
    rc = atomic_file_write(file, text.text, text.len, 1, err);
    free(text.text);
    free(file);
    return rc;
}

static int remove_tag(struct run_tags *t, const char *tag, struct err *err)
{
    const int i = run_tags_find(t, tag);

    if (i < 0)
        return err_set(err, ERR_NOT_FOUND, "it has no tag %.100s", tag);
    free(t->tag[i]);
    t->n--;
    memmove(&t->tag[i], &t->tag[i + 1], (t->n - (size_t)i) * sizeof(*t->tag));
    return 0;
}

static int add_tag(struct run_tags *t, const char *tag, struct err *err)
{
    if (!schema_is_name(tag))
        return err_set(err, ERR_ARG, "'%.100s' is no tag, expected " SCHEMA_NAME_EXPECTED,
                       tag);
    if (run_tags_find(t, tag) >= 0)
        return 0;
    if (t->n == RUN_TAGS_MAX)
        return err_set(err, ERR_LIMIT, "it would have more than %d tags", RUN_TAGS_MAX);
    t->tag[t->n++] = xstrdup(tag);
    return 0;
}

static int apply(struct run_tags *t, const struct run_tags_change *change,
                 struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < change->n_remove; i++)
        rc = remove_tag(t, change->remove[i], err);
    for (size_t i = 0; rc == 0 && i < change->n_add; i++)
        rc = add_tag(t, change->add[i], err);
    if (rc < 0 || change->note == NULL)
        return rc;
    if (!is_note(change->note))
        return err_set(err, ERR_ARG, "the note is not one line of at most %d bytes",
                       RUN_NOTE_MAX_BYTES);
    free(t->note);
    t->note = *change->note != '\0' ? xstrdup(change->note) : NULL;
    return 0;
}

/* Anybody who may read the folder can lock it, for ever. */
static int lock(int folder, const char *path, struct err *err)
{
    const int64_t until_ms = monotonic_ms() + LOCKED_WITHIN_MS;

    while (flock(folder, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(err, "%s: cannot lock it", path);
        if (monotonic_ms() >= until_ms)
            return err_set(err, ERR_TIMEOUT,
                           "%s: another process has locked it for more than %d s", path,
                           LOCKED_WITHIN_MS / 1000);
        (void)poll(NULL, 0, 1);
    }
    return 0;
}

int run_tags_change(struct run_tags *ret, const char *path,
                    const struct run_tags_change *change, struct err *err)
{
    const int folder = beneath_open(path, O_RDONLY | O_DIRECTORY, 0);
    int rc;

    *ret = (struct run_tags){0};
    if (folder < 0)
        rc = err_errno(err, "%s", path);
    else
        rc = lock(folder, path, err);
    if (rc == 0) {
        char *file = xasprintf("%s/tags", path);

        /* what a process left that was killed as it wrote the tags */
        atomic_file_tidy(file);
        free(file);
        rc = run_tags_read(ret, path, err);
        if (rc == 0)
            rc = apply(ret, change, err);
        if (rc == 0)
            rc = write_tags(ret, path, err);
    }
    if (folder >= 0)
        (void)close(folder);
    return rc;
}

void run_tags_json(const struct run_tags *t, struct json *j)
{
    json_put_array(j, "tags");
    for (size_t i = 0; i < t->n; i++)
        json_str(j, t->tag[i]);
    json_close(j);
    json_key(j, "note");
    json_str(j, t->note);
}
