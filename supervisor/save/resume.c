#include "supervisor/save/resume.h"

#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/text/scan.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/retention.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERRNO_END = 4096 }; /* errno is below it (err.h) */

struct resume {
    const char *dir; /* borrowed */
    uint64_t step;
    struct checkpoint_state state;
    struct rollout_progress at;
    struct checkpoint_block *blocks;
    size_t n_blocks;
};

void resume_free(struct resume *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_blocks; i++)
        checkpoint_block_done(&r->blocks[i]);
    free(r->blocks);
    checkpoint_state_done(&r->state);
    free(r);
}

const struct rollout_progress *resume_progress(const struct resume *r)
{
    return &r->at;
}

const struct checkpoint_section *resume_section(const struct resume *r, const char *name)
{
    return checkpoint_state_find(&r->state, name);
}

int resume_verdict(const struct resume *r, const struct run_config *c,
                   struct verdict *ret, struct err *err)
{
    const struct checkpoint_section *s = resume_section(r, SECTION_EVALUATIONS);

    *ret = (struct verdict){0};
    return s != NULL ? verdict_load(ret, c, s->data, s->len, err) : 0;
}

char *resume_ended_why(const struct resume *r, const struct run_config *c)
{
    struct verdict v;

    return c->run.has_stop_when && resume_verdict(r, c, &v, NULL) == 0 &&
                   verdict_ends(&v, &c->run.stop_when)
               ? stop_when_text(&c->run.stop_when)
               : NULL;
}

/* ---- finding a complete checkpoint ---- */

/* Whether a file could not be read, so that nothing is known of what is in it. What is in its
 * place, or missing there, is known. */
static int is_unread(int code)
{
    return code == ERR_NOMEM || code == ERR_IO || code == ERR_TIMEOUT ||
           (code < 0 && code > -ERRNO_END && code != -ENOENT && code != -ENOTDIR &&
            code != -EISDIR && code != -ELOOP && code != -ENXIO);
}

static int check_sections(struct resume *r, struct err *err)
{
    static const char *const needed[] = {SECTION_ROLLOUT, SECTION_EXPERIENCE,
                                         SECTION_BUILD_ID, SECTION_FINGERPRINT,
                                         SECTION_CONFIG};
    const struct checkpoint_section *s;

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (resume_section(r, needed[i]) == NULL)
            return err_set(err, ERR_FORMAT, "run.state lacks its section '%s'",
                           needed[i]);
    s = resume_section(r, SECTION_ROLLOUT);
    return rollout_state_progress(&r->at, s->data, s->len, err);
}

static int load_blocks(struct resume *r, struct err *err)
{
    int rc = 0;

    r->blocks = xcalloc(r->state.n, sizeof(*r->blocks));
    for (size_t i = 0; i < r->state.n && rc == 0; i++) {
        const struct checkpoint_section *s = &r->state.sections[i];

        if (text_after(s->name, SECTION_AGENT) == NULL)
            continue;
        /* only verified: the agents send their graphs again after a resume */
        rc = checkpoint_agent_load(&r->blocks[r->n_blocks], r->dir, r->step, &r->state, s,
                                   err);
        if (rc == 0)
            r->n_blocks++;
    }
    return rc;
}

static int load(struct resume **ret, const char *dir, uint64_t step, struct err *err)
{
    struct resume *r = xcalloc(1, sizeof(*r));
    int rc;

    r->dir = dir;
    r->step = step;
    rc = checkpoint_state_read(&r->state, dir, step, err);
    if (rc == 0)
        rc = check_sections(r, err);
    if (rc == 0)
        rc = load_blocks(r, err);
    if (rc < 0) {
        resume_free(r);
        return err_wrap(err, "checkpoint %" PRIu64, step), rc;
    }
    *ret = r;
    return 0;
}

static int load_newest(struct resume **ret, const char *dir,
                       void (*on_skipped)(void *ctx, const char *line), void *ctx,
                       struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    struct err why = {0};
    int is_unreadable = 0, rc = checkpoint_list(dir, &steps, &n, err);

    if (rc < 0)
        return rc;
    rc = ERR_NOT_FOUND;
    for (size_t i = n; i > 0 && rc < 0; i--) {
        rc = load(ret, dir, steps[i - 1], &why);
        is_unreadable |= rc == -EIO;
        if (is_unread(rc) && rc != -EIO)
            break;
        if (rc < 0)
            on_skipped(ctx, why.msg);
    }
    free(steps);
    if (is_unread(rc) && rc != -EIO)
        return err_pass(err, &why);
    return rc == 0 ? 0
                   : err_set(err, is_unreadable ? -EIO : ERR_NOT_FOUND,
                             "%s: no complete checkpoint%s", dir,
                             is_unreadable ? " can be read" : "");
}

int resume_open(struct resume **ret, const char *dir, const char *step,
                void (*on_skipped)(void *ctx, const char *line), void *ctx,
                struct err *err)
{
    uint64_t n = 0;
    int rc;

    if (step == NULL)
        return load_newest(ret, dir, on_skipped, ctx, err);
    rc = checkpoint_choose(dir, step, &n, err);
    return rc < 0 ? rc : load(ret, dir, n, err);
}

int resume_choose(uint64_t *ret, const char *dir, const char *step,
                  void (*on_skipped)(void *ctx, const char *line), void *ctx,
                  struct err *err)
{
    struct resume *r;
    int rc;

    if (step != NULL)
        return checkpoint_choose(dir, step, ret, err);
    rc = load_newest(&r, dir, on_skipped, ctx, err);
    if (rc == 0) {
        *ret = r->step;
        resume_free(r);
    }
    return rc;
}

/* 0: the checkpoint and its window of rows are intact. */
static int check_covered(const char *dir, uint64_t step, const char *log,
                         uint64_t capacity, struct err *err)
{
    const struct checkpoint_section *s;
    struct resume *r = NULL;
    struct store *store = NULL;
    int rc = load(&r, dir, step, err);

    if (rc == 0) {
        s = resume_section(r, SECTION_EXPERIENCE);
        rc = store_open_read(&store, log, capacity, s->data, s->len, err);
    }
    store_free(store);
    resume_free(r);
    return rc;
}

int resume_find_covered(uint64_t *ret, const char *dir, const char *log,
                        uint64_t capacity, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    struct err why = {0};
    int rc = checkpoint_list(dir, &steps, &n, err);

    if (rc < 0)
        return rc;
    rc = ERR_NOT_FOUND;
    for (; n > 0 && rc < 0 && !is_unread(rc); n--)
        if ((rc = check_covered(dir, steps[n - 1], log, capacity, &why)) == 0)
            *ret = steps[n - 1];
    free(steps);
    if (is_unread(rc))
        return err_pass(err, &why);
    return rc == 0 ? 0
                   : err_set(err, ERR_NOT_FOUND,
                             "%s lacks rows that every checkpoint needs", log);
}

/* ---- comparing this build and CPU with the checkpoint's ---- */

static int is_text(const struct checkpoint_section *s, const char *text)
{
    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}

static int differs(const struct checkpoint_section *s, const char *what, const char *now,
                   struct err *err)
{
    return err_set(err, ERR_CONFIG, "the %s was %.*s, now it is %s (--anyway continues)",
                   what, (int)(s->len < 64 ? s->len : 64), (const char *)s->data, now);
}

int resume_is_same_build(const struct resume *r, const char *build_id)
{
    return is_text(resume_section(r, SECTION_BUILD_ID), build_id);
}

/* An episode's rows where only the environment ends it; few are longer. */
enum { LONG_EPISODE = 8192 };

/* Whether a sum over the rows of one of the agent's updates may have more than SUM_BLOCK terms.
 * Losses of single transitions may also be summed over an action (MADDPG's penalty), which has no
 * more elements than the widest layer. */
static int has_large_updates(const struct run_config *c, size_t agent, int64_t widest)
{
    const struct agent_config *a = &c->agents[agent];
    const struct algorithm_info *info = algorithm_of(a);
    const struct experience_config x = run_config_experience(c, agent);

    if (info->without_env) /* a client sends the rows, in one message */
        return a->observation + a->action <
               (int64_t)(FRAME_MAX_BYTES / sizeof(float) / SUM_BLOCK);
    if (info->fixed)
        return 0;
    switch (algorithm_rows(a)) {
    case ROWS_WINDOW:
        return x.update_every > SUM_BLOCK;
    case ROWS_EPISODES:
        return x.batch_size >
               SUM_BLOCK / (c->env.max_steps > 0 ? c->env.max_steps : LONG_EPISODE);
    default:
        return x.batch_size > SUM_BLOCK / widest;
    }
}

static int reaches_2(const struct resume *r, const struct run_config *c)
{
    (void)r;
    return env_config_is_external(&c->env) || run_config_trains_graphs(c);
}

/* Sums over variables, such as the norm of a gradient; softmaxes of a layer's outputs; sums over
 * a batch; anything in a graph that others built. */
static int reaches_3(const struct resume *r, const struct run_config *c)
{
    int64_t widest = 1;

    for (size_t i = 0; i < r->n_blocks; i++) {
        const struct block_table *t = &r->blocks[i].section.table;

        for (size_t k = 0; k < t->n; k++) {
            const struct shape *s = &t->variables[k].shape;
            const int64_t width = s->rank > 0 ? s->dim[s->rank - 1] : 1;

            widest = width > widest ? width : widest;
            if (shape_elements(s) > SUM_BLOCK)
                return 1;
        }
    }
    if (widest > SUM_CHAIN || run_config_trains_graphs(c))
        return 1;
    for (size_t i = 0; i < c->n_agents; i++)
        if (agent_setting_text(&c->agents[i], FIELD_FOREIGN) != NULL ||
            has_large_updates(c, i, widest))
            return 1;
    return 0;
}

/* By version: whether what it changed (numerics.h) may change bytes of this run. */
static int (*const reaches[])(const struct resume *r, const struct run_config *c) = {
    [2] = reaches_2, [3] = reaches_3};
_Static_assert(sizeof(reaches) / sizeof(reaches[0]) == NUMERICS_VERSION + 1,
               "every version has a row");

static int has_same_bytes(int version, const struct resume *r, const struct run_config *c)
{
    if (version < 1 || version > NUMERICS_VERSION)
        return 0;
    while (version < NUMERICS_VERSION && !reaches[version + 1](r, c))
        version++;
    return version == NUMERICS_VERSION;
}

int resume_check_numerics(const struct resume *r, const struct run_config *c,
                          const char *build_id, struct err *err)
{
    const struct checkpoint_section *s = resume_section(r, SECTION_NUMERICS);
    enum numerics mode = NUMERICS_NATIVE;
    char text[64], name[16];
    int version = 0;

    if (s == NULL)
        return err_set(err, ERR_CONFIG,
                       "the checkpoint is of a build from before numerics versions, this "
                       "one is numerics %d (--anyway continues)",
                       NUMERICS_VERSION);
    (void)snprintf(text, sizeof(text), "%.*s", (int)(s->len < 60 ? s->len : 60),
                   (const char *)s->data);
    if (sscanf(text, "%15s %d", name, &version) != 2 || numerics_find(&mode, name) < 0)
        version = 0; /* not a version of any build: they count from 1 */
    if (!has_same_bytes(version, r, c))
        return err_set(err, ERR_CONFIG,
                       "the numerics version was %d, now it is %d (--anyway continues)",
                       version, NUMERICS_VERSION);
    if (mode == NUMERICS_PORTABLE || resume_is_same_build(r, build_id))
        return 0;
    return differs(resume_section(r, SECTION_BUILD_ID), "build", build_id, err);
}

/* ---- the agents' graphs ---- */

int resume_has_graph(const struct resume *r, const char *agent)
{
    char *name = xasprintf(SECTION_GRAPH "%s", agent);
    const int ret = resume_section(r, name) != NULL;

    free(name);
    return ret;
}

int resume_read_graph(const struct resume *r, const char *agent, uint8_t **ret,
                      size_t *ret_len)
{
    return checkpoint_graph_read(ret, ret_len, r->dir, r->step, &r->state, agent, NULL);
}

/* ---- restoring agents and the log ---- */

static const struct checkpoint_block *find_block(const struct resume *r, const char *name)
{
    for (size_t i = 0; i < r->n_blocks; i++)
        if (strcmp(r->blocks[i].agent, name) == 0)
            return &r->blocks[i];
    return NULL;
}

int resume_preload(const struct resume *r, struct agent_table *agents, struct err *err)
{
    for (size_t i = 0; i < agent_table_count(agents); i++) {
        const struct checkpoint_block *b;
        struct agent_info info;
        int rc;

        agent_table_info(agents, i, &info);
        b = find_block(r, info.name);
        if (b == NULL)
            return err_set(err, ERR_NOT_FOUND, "checkpoint %" PRIu64 " has no agent %s",
                           r->step, info.name);
        rc = agent_table_preload(agents, i, b->bytes, b->section.block_bytes, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int resume_check_fingerprint(const struct resume *r, const struct agent_table *agents,
                             struct err *err)
{
    const struct checkpoint_section *s = resume_section(r, SECTION_FINGERPRINT);
    const char *now = agent_table_fingerprint(agents);

    return is_text(s, now)
               ? 0
               : differs(s, "numeric fingerprint (this CPU's arithmetic)", now, err);
}

int resume_check_agents(const struct resume *r, const struct agent_table *agents,
                        struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < agent_table_count(agents) && rc == 0; i++) {
        const msgpack_object *body = &agent_table_description(agents, i)->body;
        const struct checkpoint_block *b;
        struct block_table table;
        struct agent_info info;

        agent_table_info(agents, i, &info);
        b = find_block(r, info.name);
        CHECK(b != NULL, "preloaded");
        rc = block_table_parse(&table, body, b->section.block_bytes, err);
        if (rc < 0)
            return rc;
        if (!agent_section_fits(&b->section, &table, b->section.block_bytes))
            rc = err_set(
                err, ERR_CONFIG,
                "%s: its variables have changed; `run --init-from` takes only the "
                "weights",
                info.name);
        block_table_done(&table);
    }
    return rc;
}

int resume_discard_later(const struct resume *r, struct store *store, struct err *err)
{
    int rc = retention_drop_after(r->dir, r->step, err);

    return rc < 0 ? rc : store_cut(store, err);
}
