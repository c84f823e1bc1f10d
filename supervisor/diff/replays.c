/* Where the replays of two runs part: what their stages wrote, and the rows of their logs. */
#include "supervisor/diff/parting_internal.h"

#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/diff/values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a stage made of a process's variables. */
struct written {
    uint64_t step, update; /* as a replay numbers it */
    struct probe_turn turn;
    char stage[STAGE_NAME_MAX];
    uint32_t sum;
};
struct written_list {
    struct written *list;
    size_t n, cap;
};

struct replays {
    const struct parting_args *args;
    struct parting *ret;
    uint64_t from, to;
    int which;                   /* that is played */
    struct snapshot start;       /* from which both are */
    struct written_list *by[2];  /* [start.n] of each run */
    int rows;                    /* those of the first replay; -1: none */
    struct store_difference row; /* the first that differs, if has_row */
    int has_row;
    int is_found;         /* what a stage wrote differs: the first of these */
    struct written first; /* in the run in which it came first */
    size_t agent, index;  /* which of the process's */
    int is_third;         /* the third replay: */
    size_t seen;          /* what that process wrote in it */
    double when[2];       /* the steps of the stage in the runs; NaN: none */
    uint8_t *block[2];    /* what it made; NULL: it is not known */
};

/* Which of two stages comes first; where processes take turns at one, neither. */
static int compare_turns(const struct written *a, const struct written *b)
{
    const struct probe_turn *s = &a->turn, *t = &b->turn;
    const uint64_t x[] = {a->step, s->update, s->group, s->from, s->pass, s->stage},
                   y[] = {b->step, t->update, t->group, t->from, t->pass, t->stage};

    for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Whether what a process wrote comes before what was found. */
static int comes_before_found(const struct replays *r, size_t agent,
                              const struct written *w)
{
    const int order = r->is_found ? compare_turns(w, &r->first) : -1;

    if (order != 0)
        return order < 0;
    if (w->turn.turn != r->first.turn.turn)
        return w->turn.turn < r->first.turn.turn;
    return agent <= r->agent; /* they answer in any order */
}

/* The step at which a run came to that stage; NaN: not there. */
static double step_of(const struct written *w, const struct written *stage)
{
    struct written at = *stage;

    at.step = w != NULL ? w->step : 0;
    return w != NULL && compare_turns(w, &at) == 0 ? (double)w->step : (double)NAN;
}

static void keep_block(struct replays *r, const void *block)
{
    const size_t bytes = r->start.block[r->agent].section.block_bytes;

    r->block[r->which] = xrealloc(r->block[r->which], bytes + 1);
    memcpy(r->block[r->which], block, bytes);
}

/* Takes what a process wrote as its number `index` in the first replay and in the other, if it
 * differs and no earlier difference is known. NULL: that replay had no such stage. Nothing if
 * the first replay failed: all that it lacks would differ. */
static void compare_written(struct replays *r, size_t agent, size_t index,
                            const struct written *one, const struct written *other,
                            const void *block)
{
    const int is_same_turn =
        one != NULL && other != NULL && compare_turns(one, other) == 0;
    const struct written *first =
        one == NULL || (other != NULL && compare_turns(other, one) < 0) ? other : one;

    if (r->ret->why[HERE].code != 0 || (is_same_turn && one->sum == other->sum) ||
        !comes_before_found(r, agent, first))
        return;
    r->is_found = 1;
    r->first = *first;
    r->agent = agent;
    r->index = index;
    r->when[HERE] = step_of(one, first);
    r->when[THERE] = step_of(other, first);
    free(r->block[THERE]);
    r->block[THERE] = NULL;
    if (is_same_turn)
        keep_block(r, block);
}

static void on_written(void *ctx, const struct probe_place *at,
                       const struct probe_turn *turn, const void *block, size_t bytes)
{
    struct replays *r = ctx;
    const size_t agent = snapshot_find(&r->start, at->agent);
    struct written_list *to;
    struct written *one;

    if (agent == r->start.n || bytes != r->start.block[agent].section.block_bytes)
        return;
    if (r->is_third) {
        if (agent == r->agent && r->seen++ == r->index)
            keep_block(r, block);
        return;
    }
    to = &r->by[r->which][agent];
    ARRAY_GROW(to->list, to->n, to->cap);
    one = &to->list[to->n];
    *one =
        (struct written){.step = at->step,
                         .update = at->update,
                         .turn = *turn,
                         .sum = values_sum(&r->start.block[agent].section.table, block)};
    (void)snprintf(one->stage, sizeof(one->stage), "%s", at->stage);
    if (r->which == THERE) {
        const struct written_list *from = &r->by[HERE][agent];

        compare_written(r, agent, to->n, to->n < from->n ? &from->list[to->n] : NULL, one,
                        block);
    }
    to->n++;
}

/* The second replay need not go on when a difference is known, nor the third when it has the
 * values. */
static int is_over(void *ctx)
{
    const struct replays *r = ctx;

    return r->is_third ? r->block[HERE] != NULL : r->is_found;
}

/* Behind the rows that a replay has appended, its copy may have those of the run. */
static void on_log(void *ctx, const struct store_layout *layout, int fd)
{
    struct replays *r = ctx;

    if (r->which == HERE && r->rows < 0)
        r->rows = dup(fd);
    else if (r->which == THERE && r->rows >= 0)
        r->has_row =
            store_find_difference(&r->row, r->rows, fd, r->from, r->to, NULL) == 1;
}

static void on_skipped(void *ctx, const char *line)
{
    const struct replays *r = ctx;

    r->args->on_skipped(r->args->ctx, line);
}

static void on_progress(void *ctx, uint64_t from, uint64_t step, uint64_t total)
{
    const struct replays *r = ctx;

    r->args->on_progress(r->args->ctx, r->which, from, step, total);
}

static int play(struct replays *r, int which, uint64_t to, struct err *err)
{
    const struct parting_args *a = r->args;
    struct replay_result result;
    char step[32];
    const struct replay_args args = {.dir = a->dir[which],
                                     .binaries = a->binaries,
                                     .keeper = a->keeper,
                                     .env_names = a->env_names,
                                     .from = step,
                                     .to = to,
                                     .probe = {.on_written = on_written, .ctx = r},
                                     .on_skipped = on_skipped,
                                     .on_progress = on_progress,
                                     .is_over = is_over,
                                     .on_log = on_log,
                                     .ctx = r};

    (void)snprintf(step, sizeof(step), "%" PRIu64, r->from);
    r->which = which;
    return replay_run(&args, &result, err);
}

/* Stages that only the first replay had. */
static void compare_missing(struct replays *r)
{
    for (size_t i = 0; i < r->start.n; i++) {
        const struct written_list *one = &r->by[HERE][i], *other = &r->by[THERE][i];

        if (other->n < one->n)
            compare_written(r, i, other->n, &one->list[other->n], NULL, NULL);
    }
}

/* The reason why a run cannot be replayed there stays in its `why`, unless it ends the search. */
static int take_failure(struct replays *r, int which, int rc, struct err *err)
{
    return parting_ends_by(rc) ? err_pass(err, &r->ret->why[which]) : 0;
}

/* Where neither replay differs from the other although the checkpoints of that step do: says whose
 * end is not the checkpoint. */
static int check_ends(struct replays *r, struct err *err)
{
    for (int which = HERE; which <= THERE; which++) {
        struct run_dir *dir = r->args->dir[which];
        struct snapshot end = {0};
        int rc = snapshot_load(&end, dir, r->to, &r->ret->why[which]);

        if ((rc = take_failure(r, which, rc, err)) < 0)
            return rc;
        for (size_t i = 0; i < end.n; i++) {
            const struct checkpoint_block *b = &end.block[i];
            const size_t k = snapshot_find(&r->start, b->agent);
            const struct written_list *w = &r->by[which][k];
            const struct checkpoint_block *was = &r->start.block[k];

            if (k == r->start.n ||
                values_sum(&b->section.table, b->bytes) ==
                    (w->n > 0 ? w->list[w->n - 1].sum
                              : values_sum(&was->section.table, was->bytes)))
                continue;
            (void)err_set(&r->ret->why[which], ERR_CORRUPT,
                          "its replay does not end with %s of its checkpoint of step "
                          "%" PRIu64,
                          b->agent, r->to);
            break;
        }
        snapshot_done(&end);
    }
    return 0;
}

/* Of what the replays differ in, takes what came first; plays a third one to see the values. */
static int take_first(struct replays *r, struct err *err)
{
    const uint64_t copies = r->args->copies[HERE];
    struct parting *p = r->ret;
    struct values_part part;
    const struct block_table *t;
    int rc;

    p->is_first = 1;
    if (r->has_row &&
        (!r->is_found || r->row.row - r->row.row % copies < r->first.step)) {
        parting_found_row(p, copies, &r->row);
        return 0;
    }
    parting_found(p, r->block[THERE] != NULL ? PARTING_STAGE : PARTING_WHEN,
                  r->first.step, r->start.block[r->agent].agent, NULL);
    p->stage = xstrdup(r->first.stage);
    p->update = r->first.update;
    p->pass = r->first.turn.pass;
    if (p->kind == PARTING_WHEN) {
        p->here = r->when[HERE];
        p->there = r->when[THERE];
        return 0;
    }
    r->is_third = 1;
    rc = play(r, HERE, r->first.step, &p->why[HERE]);
    if (rc < 0 || r->block[HERE] == NULL)
        return take_failure(r, HERE, rc, err);
    t = &r->start.block[r->agent].section.table;
    if (values_compare(&part, t, r->block[HERE], r->block[THERE]))
        parting_found_values(p, t, &part);
    return 0;
}

int replays_narrow(const struct parting_args *args, uint64_t from, uint64_t to,
                   struct parting *p, struct err *err)
{
    struct replays r = {.args = args, .ret = p, .from = from, .to = to, .rows = -1};
    int rc = snapshot_load(&r.start, args->dir[HERE], from, &p->why[HERE]);

    if (rc < 0)
        return take_failure(&r, HERE, rc, err);
    for (int i = HERE; rc == 0 && i <= THERE; i++) {
        r.by[i] = xcalloc(r.start.n + 1, sizeof(*r.by[i]));
        rc = take_failure(&r, i, play(&r, i, to, &p->why[i]), err);
    }
    if (rc == 0 && p->why[HERE].code == 0 && p->why[THERE].code == 0) {
        compare_missing(&r);
        if ((r.has_row || r.is_found) && p->step >= from)
            rc = take_first(&r, err);
        else if (p->kind == PARTING_CHECKPOINT)
            rc = check_ends(&r, err);
    }
    for (int i = HERE; i <= THERE; i++) {
        for (size_t k = 0; r.by[i] != NULL && k < r.start.n; k++)
            free(r.by[i][k].list);
        free(r.by[i]);
        free(r.block[i]);
    }
    if (r.rows >= 0)
        (void)close(r.rows);
    snapshot_done(&r.start);
    return rc;
}
