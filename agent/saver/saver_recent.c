#include "agent/saver/saver_internal.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t saver_n_last_checkpoints(const struct saver *s)
{
    return s->n_last;
}

const char *saver_last_checkpoint(const struct saver *s, size_t i)
{
    CHECK(i < s->n_last);
    return s->last[i].prefix;
}

static struct kept take_kept(struct saver *s, size_t i)
{
    struct kept k = s->last[i];

    s->n_last--;
    memmove(&s->last[i], &s->last[i + 1], (s->n_last - i) * sizeof(k));
    return k;
}

static void add_kept(struct saver *s, const char *prefix, double time)
{
    if (s->n_last == s->cap_last) {
        s->cap_last = s->cap_last != 0 ? 2 * s->cap_last : 8;
        s->last = xreallocarray(s->last, s->cap_last, sizeof(*s->last));
    }
    s->last[s->n_last++] = (struct kept){xstrdup(prefix), time};
}

static void forget_all(struct saver *s)
{
    while (s->n_last > 0)
        free(take_kept(s, 0).prefix);
}

void saver_set_last_checkpoints(struct saver *s, const char *const *prefixes, size_t n)
{
    forget_all(s);
    for (size_t i = 0; i < n; i++)
        add_kept(s, prefixes[i], (double)INFINITY);
}

void saver_recover_last_checkpoints(struct saver *s, const char *const *prefixes,
                                    size_t n)
{
    forget_all(s);
    for (size_t i = 0; i < n; i++) {
        double time;

        if (checkpoint_mtime(prefixes[i], &time, NULL) == 0)
            add_kept(s, prefixes[i], time);
    }
}

/* Adds the checkpoint to the list. Returns 1 if *ret_old had to leave the list. */
static int record(struct saver *s, const char *prefix, struct kept *ret_old)
{
    if (s->options.max_to_keep == 0)
        return 0;
    for (size_t i = 0; i < s->n_last; i++)
        if (strcmp(s->last[i].prefix, prefix) == 0) {
            free(take_kept(s, i).prefix);
            break;
        }
    add_kept(s, prefix, saver_now(s));
    if (s->n_last <= (size_t)s->options.max_to_keep)
        return 0;
    *ret_old = take_kept(s, 0);
    return 1;
}

/* Deletes the checkpoint, unless it is the one to keep of its keep_every_n_hours. If a
 * file cannot be deleted, only logs a warning. */
static void delete_old(struct saver *s, const struct kept *old, const char *suffix)
{
    struct err err = {0};

    if (old->time > s->next_keep)
        s->next_keep += s->options.keep_every_n_hours * 3600.0;
    else if (checkpoint_remove(old->prefix, suffix, &err) != 0)
        log_warn("Ignoring: %s", err.msg);
}

int saver_write_state(struct saver *s, const char *save_dir, const char *prefix,
                      const char *latest_filename, const char *suffix, struct err *err)
{
    struct kept old = {0};
    int has_old = record(s, prefix, &old), rc;
    const char **all = xcalloc(s->n_last + 1, sizeof(*all));
    struct checkpoint_state_update u = {
        .save_dir = save_dir,
        .newest = prefix,
        .all = all,
        .n_all = s->n_last,
        .latest_filename = latest_filename,
        .save_relative_paths = s->options.save_relative_paths,
        .durable = s->options.durable,
    };

    for (size_t i = 0; i < s->n_last; i++)
        all[i] = s->last[i].prefix;
    rc = checkpoint_state_write(&u, err);
    if (rc == 0 && has_old)
        delete_old(s, &old, suffix);
    free(old.prefix);
    free(all);
    return rc;
}
