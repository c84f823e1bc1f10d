#include "supervisor/cli/log_merge.h"

#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ".log"

/* Sorts after every time. */
#define LAST_TIME "~"

/* ---- sources ---- */

static void add(struct log_merge *m, const char *name, char *path)
{
    struct log_source *s;

    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->sources[i]->path, path) == 0) {
            free(path);
            return;
        }
    }
    s = xcalloc(1, sizeof(*s));
    s->name = xstrdup(name);
    s->path = path;
    (void)snprintf(s->time, sizeof(s->time), LAST_TIME);
    (void)line_reader_open(&s->reader, path, LOG_LINE_MAX, NULL);
    m->sources = xreallocarray(m->sources, m->n + 1, sizeof(*m->sources));
    m->sources[m->n++] = s;
}

static int is_log(const struct dirent *e)
{
    return e->d_name[0] != '.' && text_ends_with(e->d_name, SUFFIX);
}

static void find(struct log_merge *m)
{
    char *folder = xasprintf("%s/logs", m->run);
    struct dirent **found = NULL;
    int n = m->only == NULL ? beneath_scandir(folder, &found, is_log) : -1;

    for (int i = 0; i < n; i++) {
        char *name =
            xstrndup(found[i]->d_name, strlen(found[i]->d_name) - strlen(SUFFIX));

        add(m, name, xasprintf("%s/%s", folder, found[i]->d_name));
        free(name);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    free(folder);
}

void log_merge_open(struct log_merge *m, const char *path, const char *only)
{
    *m = (struct log_merge){.run = path, .only = only};
    if (only == NULL || strcmp(only, "journal") == 0)
        add(m, "journal", xasprintf("%s/journal", path));
    else
        add(m, only, xasprintf("%s/logs/%s" SUFFIX, path, only));
    find(m);
}

void log_merge_close(struct log_merge *m)
{
    for (size_t i = 0; i < m->n; i++) {
        line_reader_close(&m->sources[i]->reader);
        free((char *)(uintptr_t)m->sources[i]->name);
        free(m->sources[i]->path);
        free(m->sources[i]);
    }
    free(m->sources);
    *m = (struct log_merge){0};
}

void log_merge_refresh(struct log_merge *m)
{
    find(m);
    for (size_t i = 0; i < m->n; i++) {
        struct log_source *s = m->sources[i];

        if (s->is_dry)
            (void)line_reader_renew(&s->reader, s->path);
        s->is_dry = 0;
    }
}

/* ---- lines ---- */

/* Whether the line begins with a time such as "2026-01-31T12:00:00.123Z ". */
static int begins_with_time(const char *line)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'd' ? line[i] < '0' || line[i] > '9' : line[i] != form[i])
            return 0;
    }
    return 1;
}

static void fill(struct log_source *s, int last)
{
    if (s->line != NULL || (s->is_dry && !last))
        return;
    if (line_reader_next(&s->reader, &s->line, &s->len, NULL) <= 0 &&
        (!last || line_reader_rest(&s->reader, &s->line, &s->len) <= 0)) {
        s->line = NULL;
        s->is_dry = 1;
        return;
    }
    if (begins_with_time(s->line))
        (void)snprintf(s->time, sizeof(s->time), "%.24s", s->line);
}

const struct log_source *log_merge_next(struct log_merge *m, int last)
{
    struct log_source *first = NULL;

    if (m->handed_out != NULL)
        m->handed_out->line = NULL;
    for (size_t i = 0; i < m->n; i++) {
        struct log_source *s = m->sources[i];

        fill(s, last);
        if (s->line != NULL && (first == NULL || strcmp(s->time, first->time) < 0))
            first = s;
    }
    m->handed_out = first;
    return first;
}
