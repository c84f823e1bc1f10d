#include "agent/algo/matrix.h"

#include "agent/algo/choices.h"
#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "common/err/check.h"
#include "common/mem/copy_short.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum source {
    FROM_LOG,
    FROM_LOG_BEFORE, /* from the row before in time */
    FROM_LOG_AFTER,  /* the same, but only where no row is: what followed it */
    FROM_ID,
    FROM_OUTPUT,
    FROM_MATRIX
};
enum turn { TURN_NEVER, TURN_OBS, TURN_ACTION };

struct block {
    enum source source;
    enum turn turn;
    int may_lack; /* FROM_OUTPUT: the agent may have sent none */
    size_t agent;
    size_t part, parts; /* FROM_OUTPUT, of the central process; parts 0: of an agent */
    const char *name;
    int64_t first, width;
    struct agent_id id;
    struct matrix *of;
};

struct memory {
    float *data;
    size_t room; /* floats */
    struct matrix *holder;
    int n_users;
};

struct matrix {
    struct matrices *all;
    int64_t width;
    struct block *blocks;
    int *columns; /* [n] places in the log, of blocks FROM_LOG */
    size_t n;
    /* Of matrix_of_masks and matrix_of_choices. */
    int is_mask;
    enum when when;
    struct matrix *action;
    int32_t choices;
    int mask_column;
    uint8_t *bytes; /* as the log has the masks, then what is open of one row */
    size_t bytes_room;

    struct memory *memory;
    uint64_t generation; /* whose rows it holds */
};

/* ---- declarations ---- */

struct matrix *matrix_new(struct matrices *all, int64_t width)
{
    struct matrix *m = xcalloc(1, sizeof(*m));

    *m = (struct matrix){
        .all = all, .width = width, .memory = xcalloc(1, sizeof(*m->memory))};
    m->memory->n_users = 1;
    all->list = xreallocarray(all->list, all->n + 1, sizeof(struct matrix *));
    all->list[all->n++] = m;
    return m;
}

int64_t matrix_width(const struct matrix *m)
{
    return m->width;
}

static void matrix_add(struct matrix *m, struct block block)
{
    block.first = m->width;
    m->blocks = xreallocarray(m->blocks, m->n + 1, sizeof(*m->blocks));
    m->columns = xreallocarray(m->columns, m->n + 1, sizeof(*m->columns));
    m->columns[m->n] = -1;
    m->blocks[m->n++] = block;
    m->width += block.width;
}

void matrix_add_obs(struct matrix *m, enum when when, size_t agent)
{
    matrix_add(m, (struct block){.source = FROM_LOG,
                                 .turn = TURN_OBS,
                                 .agent = agent,
                                 .name = when == NOW ? "obs" : "next_obs",
                                 .width = m->all->agents[agent].obs});
}

void matrix_add_actions_in(struct matrix *m, size_t agent, const char *column)
{
    matrix_add(m, (struct block){.source = FROM_LOG,
                                 .turn = TURN_ACTION,
                                 .agent = agent,
                                 .name = column,
                                 .width = m->all->agents[agent].width});
}

void matrix_add_action(struct matrix *m, size_t agent)
{
    matrix_add_actions_in(m, agent, "action");
}

void matrix_add_action_before(struct matrix *m, size_t agent)
{
    matrix_add_action(m, agent);
    m->blocks[m->n - 1].source = FROM_LOG_BEFORE;
}

void matrix_add_obs_through(struct matrix *m, size_t agent)
{
    struct block *after;

    matrix_add_obs(m, NOW, agent);
    matrix_add_obs(m, NEXT, agent);
    after = &m->blocks[m->n - 1];
    after->source = FROM_LOG_AFTER;
    after->turn = TURN_NEVER; /* with the other block, which is in the same place */
    after->first -= after->width;
    m->width -= after->width;
}

void matrix_add_columns(struct matrix *m, size_t agent, const char *name, int64_t width)
{
    matrix_add(m, (struct block){
                      .source = FROM_LOG, .agent = agent, .name = name, .width = width});
}

void matrix_add_column(struct matrix *m, size_t agent, const char *name)
{
    matrix_add_columns(m, agent, name, 1);
}

void matrix_add_id(struct matrix *m, const struct agent_id *id)
{
    if (id->width > 0)
        matrix_add(m, (struct block){.source = FROM_ID, .id = *id, .width = id->width});
}

void matrix_add_output(struct matrix *m, size_t agent, const char *name, int64_t width,
                       enum output_kind kind)
{
    const int turns = kind == OUTPUT_ACTION && !m->all->agents[agent].symmetric;

    matrix_add(m, (struct block){.source = FROM_OUTPUT,
                                 .turn = turns ? TURN_ACTION : TURN_NEVER,
                                 .may_lack = kind == OUTPUT_IF_SENT,
                                 .agent = agent,
                                 .name = name,
                                 .width = width});
}

void matrix_add_central(struct matrix *m, const char *name, size_t part, size_t parts)
{
    matrix_add(m, (struct block){.source = FROM_OUTPUT,
                                 .part = part,
                                 .parts = parts,
                                 .name = name,
                                 .width = 1});
}

void matrix_add_copy(struct matrix *m, struct matrix *of)
{
    matrix_add(m, (struct block){.source = FROM_MATRIX, .of = of, .width = of->width});
}

void matrix_add_seen(struct matrix *m, enum when when, const struct seen *seen)
{
    for (size_t i = 0; i < seen->n; i++) {
        matrix_add_obs(m, when, seen->agent[i]);
        if (i == seen->own)
            matrix_add_id(m, &seen->id);
    }
}

struct matrix *matrix_of_masks(struct matrices *all, enum when when, int32_t choices)
{
    const struct space *self = &all->agents[all->self];
    struct matrix *m = matrix_new(all, choices > 0 ? choices : self->width);

    m->is_mask = 1;
    m->when = when;
    m->choices = choices;
    return m;
}

struct matrix *matrix_of_choices(struct matrices *all, struct matrix *action,
                                 int32_t choices)
{
    struct matrix *m = matrix_new(all, choices);

    m->action = action;
    m->choices = choices;
    return m;
}

void matrix_share_memory(struct matrix *m, struct matrix *with)
{
    CHECK(m->memory->n_users == 1 && m->memory->data == NULL);
    free(m->memory);
    m->memory = with->memory;
    m->memory->n_users++;
}

void matrices_done(struct matrices *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct matrix *m = all->list[i];

        if (--m->memory->n_users == 0) {
            free(m->memory->data);
            free(m->memory);
        }
        free(m->blocks);
        free(m->columns);
        free(m->bytes);
        free(m);
    }
    free(all->list);
    free(all->rows);
    *all = (struct matrices){0};
}

void matrices_reads(struct matrices *all, struct reads *r)
{
    for (size_t i = 0; i < all->n; i++) {
        struct matrix *m = all->list[i];

        for (size_t k = 0; k < m->n; k++) {
            const struct block *b = &m->blocks[k];

            if (b->source <= FROM_LOG_AFTER)
                reads_add(r, b->agent == MATRIX_ALL ? NULL : all->agents[b->agent].name,
                          b->name, b->width, &m->columns[k]);
        }
        if (m->is_mask)
            reads_add_mask(r, &all->agents[all->self],
                           m->when == NOW ? "allowed" : "next_allowed", &m->mask_column);
    }
}

/* ---- gathering ---- */

static int is_same(const struct matrices *all, const struct gathering *g)
{
    return all->generation > 0 && all->draw == g->draw && all->symmetry == g->symmetry &&
           all->n_rows == g->n && all->sequences == g->sequences &&
           memcmp(all->rows, g->rows, g->n * sizeof(*g->rows)) == 0;
}

void matrices_begin(struct matrices *all, const struct gathering *g)
{
    if (is_same(all, g)) {
        for (size_t i = 0; i < all->n; i++)
            for (size_t k = 0; k < all->list[i]->n; k++)
                if (all->list[i]->blocks[k].source >= FROM_OUTPUT)
                    matrix_spoil(all->list[i]);
        return;
    }
    all->generation++;
    all->draw = g->draw;
    all->symmetry = g->symmetry;
    all->sequences = g->sequences;
    if (g->n > all->room) {
        all->rows = xreallocarray(all->rows, g->n, sizeof(*g->rows));
        all->room = g->n;
    }
    memcpy(all->rows, g->rows, g->n * sizeof(*g->rows));
    all->n_rows = g->n;
}

void matrix_spoil(struct matrix *m)
{
    m->generation = 0;
}

float *matrix_room(struct matrix *m, size_t n, struct err *err)
{
    const size_t floats = n * (size_t)m->width;
    struct memory *memory = m->memory;

    memory->holder = m;
    m->generation = 0;
    if (floats > memory->room || memory->data == NULL) {
        free(memory->data);
        memory->room = 0;
        memory->data = mem_aligned((floats > 0 ? floats : 1) * sizeof(float));
        if (memory->data == NULL) {
            (void)err_set(err, ERR_NOMEM, "no memory for %zu rows", n);
            return NULL;
        }
        memory->room = floats;
    }
    return memory->data;
}

/* Room for n bytes of masks; behind them, what is open in one row. */
static uint8_t *room_for_bytes(struct matrix *m, size_t n)
{
    if (n > m->bytes_room || m->bytes == NULL) {
        free(m->bytes);
        m->bytes = xcalloc(n + (size_t)m->choices + 1, 1);
        m->bytes_room = n;
    }
    return m->bytes;
}

static void open_choices(struct matrix *m, const uint8_t *allowed, size_t n, float *x)
{
    const struct space *self = &m->all->agents[m->all->self];
    uint8_t *open = m->bytes + m->bytes_room;

    if (m->choices == 0) {
        choices_open(self, allowed, n, x);
        return;
    }
    for (size_t i = 0; i < n; i++, x += m->choices) {
        (void)choices_allowed(self,
                              allowed != NULL ? allowed + i * (size_t)self->width : NULL,
                              m->choices, open);
        for (int32_t c = 0; c < m->choices; c++)
            x[c] = open[c];
    }
}

float *matrix_put_masks(struct matrix *m, const uint8_t *allowed, size_t n,
                        struct err *err)
{
    float *x = matrix_room(m, n, err);

    (void)room_for_bytes(m, 0);
    if (x != NULL)
        open_choices(m, allowed, n, x);
    m->generation = m->all->generation;
    return x;
}

const uint8_t *matrix_masks(const struct matrix *m)
{
    return m->bytes;
}

static struct row_layout layout_of(const struct gathering *g)
{
    return row_layout_of((int64_t)g->n, (int64_t)g->sequences, g->in_time);
}

static void gather_masks(struct matrix *m, const struct gathering *g, float *x)
{
    const size_t width = (size_t)m->all->agents[m->all->self].width;
    const struct row_layout l = layout_of(g);
    uint8_t *allowed = room_for_bytes(m, g->n * width);

    CHECK(l.of_sequence == 1 || l.batch <= 1);
    store_view_gather_bytes(g->args->store, m->mask_column, g->rows, g->n, allowed);
    for (int64_t t = 0; t < l.length; t++)
        symmetry_mask(g->symmetry, m->all->self, (size_t)l.batch,
                      allowed + (size_t)(t * l.of_step) * width);
    open_choices(m, allowed, g->n, x);
}

/* Gathers the blocks from the log that begin at block k; returns how many they are. */
static size_t gather_log(struct matrix *m, size_t k, const struct gathering *g, float *x)
{
    size_t end = k + 1;

    while (end < m->n && m->blocks[end].source == FROM_LOG)
        end++;
    x += m->blocks[k].first;
    if (end == k + 1)
        store_view_gather(g->args->store, m->columns[k], g->rows, g->n, x,
                          (size_t)m->width);
    else
        store_view_gather_joined(g->args->store, m->columns + k, end - k, g->rows, g->n,
                                 x, (size_t)m->width);
    return end - k;
}

static int copy_output(struct matrix *m, const struct block *b, const struct gathering *g,
                       float *x, struct err *err)
{
    const size_t bytes = (size_t)b->width * sizeof(float);
    const char *agent = b->parts > 0 ? "central" : m->all->agents[b->agent].name;
    const int lacks =
        b->may_lack && g->args->input(g->args->input_ctx, agent, b->name) == NULL;
    const float *output = NULL;
    int rc = 0;

    if (!lacks)
        rc = rows_input(g->args, agent, b->name, b->width,
                        b->parts > 0 ? (int64_t)b->parts : g->args->groups,
                        b->parts > 0 ? (int64_t)b->part : g->group, &output, err);

    x += b->first;
    if (rc == 0 && !lacks && g->place == NULL) {
        copy_rows(x, (size_t)m->width * sizeof(float), output, bytes, g->n, bytes);
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < g->n; i++, x += m->width)
        if (lacks || g->place[i] == ROW_NOT_REQUESTED)
            memset(x, 0, bytes);
        else
            memcpy(x, output + g->place[i] * b->width, bytes);
    return rc;
}

/* From the row before in time, which the first step of each sequence has not. */
static void gather_before(struct matrix *m, size_t k, const struct gathering *g, float *x)
{
    const struct block *b = &m->blocks[k];
    const size_t width = (size_t)m->width;

    CHECK(g->in_time);
    x += b->first;
    for (size_t i = 0; i < g->sequences; i++)
        memset(x + i * width, 0, (size_t)b->width * sizeof(*x));
    store_view_gather(g->args->store, m->columns[k], g->rows, g->n - g->sequences,
                      x + g->sequences * width, width);
}

/* Where a sequence has ended, what followed its last row. */
static void gather_after(struct matrix *m, size_t k, const struct gathering *g, float *x)
{
    CHECK(g->in_time);
    x += m->blocks[k].first;
    for (size_t i = g->sequences; i < g->n; i++) {
        const uint64_t *before = &g->rows[i - g->sequences];

        if (g->rows[i] == ROW_NONE && *before != ROW_NONE)
            store_view_gather(g->args->store, m->columns[k], before, 1,
                              x + (int64_t)i * m->width, (size_t)m->width);
    }
}

/* Step by step: the rows of one step of all sequences have a draw each. */
static void turn(struct matrix *m, const struct gathering *g, float *x)
{
    const struct row_layout l = layout_of(g);
    const size_t stride = (size_t)(l.of_sequence * m->width);

    for (size_t k = 0; k < m->n; k++) {
        const struct block *b = &m->blocks[k];

        for (int64_t t = 0; b->turn != TURN_NEVER && t < l.length; t++)
            (b->turn == TURN_OBS ? symmetry_obs : symmetry_action)(
                g->symmetry, b->agent, (size_t)l.batch,
                x + t * l.of_step * m->width + b->first, stride);
    }
}

static int gather(struct matrix *m, const struct gathering *g, float *x, struct err *err)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < m->n;) {
        const struct block *b = &m->blocks[k];

        if (b->source == FROM_LOG) {
            k += gather_log(m, k, g, x);
            continue;
        }
        if (b->source == FROM_LOG_BEFORE) {
            gather_before(m, k, g, x);
        } else if (b->source == FROM_LOG_AFTER) {
            gather_after(m, k, g, x);
        } else if (b->source == FROM_ID) {
            agent_id_put(&b->id, x + b->first, (int64_t)g->n, m->width);
        } else if (b->source == FROM_MATRIX) {
            const size_t bytes = (size_t)b->width * sizeof(float);

            CHECK(b->of->memory->holder == b->of);
            copy_rows(x + b->first, (size_t)m->width * sizeof(float), b->of->memory->data,
                      bytes, g->n, bytes);
        } else {
            rc = copy_output(m, b, g, x, err);
        }
        k++;
    }
    if (rc == 0 && g->symmetry != NULL)
        turn(m, g, x);
    return rc;
}

/* Its owner fills it. */
static int is_plain(const struct matrix *m)
{
    return m->n == 0 && !m->is_mask && m->action == NULL;
}

int matrix_take(struct matrix *m, const struct gathering *g, float **ret, struct err *err)
{
    float *x, *action;
    int rc = 0;

    *ret = m->memory->data;
    if (m->memory->holder == m && (m->generation == m->all->generation || is_plain(m)))
        return 0;
    x = *ret = matrix_room(m, g->n, err);
    if (x == NULL)
        return ERR_NOMEM;
    if (m->is_mask)
        gather_masks(m, g, x);
    else if (m->action == NULL)
        rc = gather(m, g, x, err);
    else if ((rc = matrix_take(m->action, g, &action, err)) == 0)
        choices_one_hot(&m->all->agents[m->all->self], action, (int64_t)g->n, m->choices,
                        x);
    m->generation = rc == 0 ? m->all->generation : 0;
    return rc;
}
