/* Arbitrary bytes as a journal: read within bounds. Values that were read can be written
 * and read again unchanged. */
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/journal_read.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The value after it was written and read once; free(). */
static char *again(const char *key, const char *value)
{
    struct json j = {0};
    struct journal_event e;
    char *line, *copy;
    size_t len;

    json_str(&j, value);
    line = xasprintf("T event=e %s=%s", key, json_line(&j, &len));
    line[strlen(line) - 1] = '\0'; /* the newline */
    CHECK(journal_parse(line, &e) == 0 && e.n_pairs == 1);
    CHECK(strcmp(e.pairs[0].key, key) == 0);
    copy = xstrdup(e.pairs[0].value);
    free(line);
    json_done(&j);
    return copy;
}

static int check(void *ctx, uint64_t line, const struct journal_event *e)
{
    (void)ctx;
    CHECK(line > 0 && e->name[0] != '\0' && e->n_pairs <= JOURNAL_PAIRS_MAX);
    CHECK(strchr(e->time, ' ') == NULL);
    for (size_t i = 0; i < e->n_pairs; i++) {
        const struct journal_pair *p = &e->pairs[i];
        char *once, *twice;

        (void)journal_number(e, p->key, 0);
        (void)journal_real(e, p->key, 0);
        if (strcmp(p->key, "event") == 0 || strcmp(p->key, "step") == 0)
            continue;                   /* a second `event` or `step` of the line */
        once = again(p->key, p->value); /* the first round replaces invalid UTF-8 */
        twice = again(p->key, once);
        CHECK(strcmp(once, twice) == 0);
        free(once);
        free(twice);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("journal", MFD_CLOEXEC);
    char path[32];

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(journal_each(path, check, NULL, NULL) == 0);
    (void)close(fd);
    return 0;
}
