#include "common/io/patience.h"

#include "common/io/beneath.h"
#include "common/io/monotonic.h"

#include <limits.h>
#include <unistd.h>

static _Thread_local struct {
    int limit_ms;    /* 0: none */
    int64_t used_ms; /* on the runs of others, until patience_enter */
    int64_t since_ms;
    int depth, is_foreign;
    int has_given_up;        /* on this run */
    dev_t run_dev, last_dev; /* of this run, and of the last one that was given up */
    ino_t run_ino, last_ino;
    int n_given_up;
} me;

void patience_begin(int ms)
{
    me.limit_ms = ms;
    me.used_ms = 0;
    me.n_given_up = 0;
    me.last_ino = 0;
    if (me.depth > 0)
        me.since_ms = monotonic_ms();
}

/* Remembers which run it is. */
static int is_foreign(const char *dir)
{
    struct stat st;

    if (beneath_held(dir, &st) < 0 && stat(dir, &st) < 0)
        return 0;
    me.run_dev = st.st_dev;
    me.run_ino = st.st_ino;
    return st.st_uid != geteuid() && st.st_uid != 0;
}

void patience_enter(const char *dir)
{
    if (me.depth++ > 0 || me.limit_ms == 0)
        return;
    me.is_foreign = is_foreign(dir);
    me.has_given_up = 0;
    me.since_ms = me.is_foreign ? monotonic_ms() : 0;
}

void patience_leave(void)
{
    if (--me.depth > 0 || !me.is_foreign)
        return;
    me.used_ms += monotonic_ms() - me.since_ms;
    me.n_given_up = patience_n_given_up();
    if (me.has_given_up) {
        me.last_dev = me.run_dev;
        me.last_ino = me.run_ino;
    }
    me.has_given_up = me.is_foreign = 0;
}

int patience_left_ms(void)
{
    int64_t left;

    if (me.limit_ms == 0 || !me.is_foreign)
        return INT_MAX;
    left = me.limit_ms - me.used_ms - (monotonic_ms() - me.since_ms);
    return left > 0 ? (int)left : 0;
}

int patience_check(struct err *err)
{
    if (patience_left_ms() > 0)
        return 0;
    me.has_given_up = 1;
    return err_set(err, ERR_TIMEOUT,
                   "reading what belongs to other users takes longer than %d s",
                   me.limit_ms / 1000);
}

int patience_n_given_up(void)
{
    const int is_known = me.run_ino == me.last_ino && me.run_dev == me.last_dev;

    return me.n_given_up + (me.is_foreign && me.has_given_up && !is_known);
}
