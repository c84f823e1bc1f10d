#include "supervisor/begin/estimate.h"

#include "common/config/algorithms.h"
#include "common/config/change_plan.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rollout/row_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* Measured with Pss of runs of 3 to 40 agents: the sum was right within a fifth. */
#define PROCESS_BYTES     4e6 /* an agent's program, with its graph */
#define PROGRAM_BYTES     2e5 /* what it holds at least of its own */
#define LEARNER_BYTES     8e5 /* and what learning adds to that */
#define SUPERVISOR_BYTES  5e6
#define BLOCK_COPIES      4
#define CHUNK_ROWS        128 /* rows whose values an update holds at a time */
/* values per unit of a network: of the unit, its target and their gradients */
#define VALUES_PER_UNIT   8
/* the same for convolutions and layers of entities, which work on all rows at once */
#define VALUES_PER_CONV   3
#define LITTLE_DISK_BYTES 1e8 /* no warning for a smaller need */
#define DRAWN_ROW_BYTES   16  /* a row in the index of episodes or priorities */

/* ---- rows ---- */

static int row_bytes(uint64_t *ret, const struct env_spec *spec,
                     const struct description *descriptions, struct err *err)
{
    struct store_layout layout = {0};
    const int rc = row_writer_layout(&layout, spec, descriptions, err);

    *ret = layout.row_bytes;
    store_layout_done(&layout);
    return rc;
}

/* How many checkpoints are kept; 0: all. */
static double checkpoints_kept(const struct run_config *c)
{
    return c->checkpoint.max_to_keep > 0
               ? (double)c->checkpoint.max_to_keep + c->checkpoint.has_keep_best
               : 0;
}

/* Returns the largest number of rows in the log at any time (retention.h). */
static double rows_kept(const struct run_config *c)
{
    const double steps = (double)run_config_most_steps(c);
    const double window = (double)run_config_log_window(c);
    const double every = (double)c->checkpoint.every_env_steps;
    /* the window, those of the checkpoints, and what is between them */
    double behind = 0;

    if (strcmp(c->env.id, "none") == 0)
        return 0;
    if (c->checkpoint.max_to_keep > 0 && c->checkpoint.every_env_steps > 0)
        behind = checkpoints_kept(c) * fmin(window, every);
    else if (steps > 0)
        return steps;
    behind += fmax(window, every);
    behind += (double)((c->env.stack - 1) * c->env.copies);
    return steps > 0 && steps < behind ? steps : behind;
}

/* ---- memory ---- */

static double layer_units(const struct network_config *n)
{
    double units = 0;

    for (int i = 0; i < n->hidden.n; i++)
        units += (double)n->hidden.size[i];
    for (int i = 0; i < n->after_action.n; i++)
        units += (double)n->after_action.size[i];
    return units;
}

/* Returns the number of values that the convolutions compute for one image. */
static double conv_units(const struct network_config *n, const struct env_agent *a)
{
    int64_t height = a->image.shape[0], width = a->image.shape[1];
    double units = 0;

    for (int64_t i = 0; i < n->conv.n; i++) {
        const struct conv_layer *layer = &n->conv.layer[i];

        height = conv_layer_output(layer, height);
        width = conv_layer_output(layer, width);
        units += (double)height * (double)width * (double)layer->filters;
    }
    return units;
}

/* Returns the number of values that the layers for entities compute for one observation. */
static double entity_units(const struct network_config *n, const struct env_agent *a)
{
    const struct layer_sizes *units = &n->entities.units;
    double sum = 0;

    for (int i = 0; n->has_entities && i < units->n; i++)
        sum += (double)units->size[i];
    if (n->has_entities && n->entities.pool == POOL_ATTENTION) /* keys, values */
        sum += 2 * (double)units->size[units->n - 1];
    return (double)a->entities[0] * sum;
}

/* Returns the size of a row after it was gathered: with float32 observations. */
static double gathered_bytes(const struct env_spec *spec, uint64_t a_row)
{
    double bytes = (double)a_row;

    for (size_t i = 0; i < spec->n_agents; i++) /* the observation and the next one */
        bytes += 2 * ((double)env_seen_width(spec, i) * sizeof(float) -
                      (double)env_obs_bytes(&spec->agents[i]));
    return bytes;
}

/* Returns the size of an update's rows as the agent sees them, and of the values that its
 * networks compute from them. */
static double batch_bytes(const struct run_config *c, const struct env_spec *spec,
                          size_t agent, uint64_t a_row)
{
    const struct agent_config *a = &c->agents[agent];
    const struct experience_config x = run_config_experience(c, agent);
    const int64_t length = spec->max_steps > 0 ? spec->max_steps : 1;
    double rows = (double)x.batch_size, units, convs, seen = gathered_bytes(spec, a_row);

    if (!algorithm_learns(algorithm_of(a)))
        return 0;
    if (algorithm_rows(a) == ROWS_WINDOW)
        rows = (double)x.update_every;
    else if (algorithm_rows(a) == ROWS_EPISODES)
        rows *= (double)length;
    if (a->critic.input == CRITIC_OWN)
        seen /= (double)c->n_agents;
    units = layer_units(&a->actor) + layer_units(&a->critic) +
            agent_setting_marked(a, FIELD_UNITS);
    convs = conv_units(&a->actor, &spec->agents[agent]) +
            conv_units(&a->critic, &spec->agents[agent]) +
            entity_units(&a->actor, &spec->agents[agent]) +
            entity_units(&a->critic, &spec->agents[agent]);
    return rows * (seen + 4 * convs * VALUES_PER_CONV) +
           fmin(rows, CHUNK_ROWS) * (4 * units * VALUES_PER_UNIT + 2 * seen);
}

/* Of the configuration as it is, without the values for later steps. e->row_bytes is known. */
static void estimate_now(struct estimate *ret, const struct run_config *c,
                         const struct env_spec *spec, const uint64_t *block_bytes)
{
    const double copies = (double)c->env.copies;
    struct estimate e = {.rows = rows_kept(c), .row_bytes = ret->row_bytes};
    double blocks = 0, kept = checkpoints_kept(c), batches;
    const double steps = (double)run_config_most_steps(c);

    for (size_t i = 0; i < c->n_agents; i++) {
        double least;
        int64_t limit;

        blocks += (double)block_bytes[i];
        batches = batch_bytes(c, spec, i, e.row_bytes);
        e.batches += batches;
        limit = c->agents[i].memory_limit_bytes;
        least = PROGRAM_BYTES + (batches > 0 ? LEARNER_BYTES : 0) +
                (double)block_bytes[i] + batches / 2;
        if (e.limit.bytes == 0 && limit != 0 && (double)limit < least) {
            e.limit.bytes = limit;
            e.limit.least = least;
            e.limit.agent = i;
        }
        if (block_bytes[i] > block_bytes[e.largest])
            e.largest = i;
    }
    e.weights = BLOCK_COPIES * blocks;
    e.messages = 3 * copies * (double)e.row_bytes;
    if (c->experience.has_priority || run_config_rows(c) == ROWS_EPISODES)
        e.messages += DRAWN_ROW_BYTES * fmin(e.rows, (double)c->experience.capacity);
    e.processes = SUPERVISOR_BYTES + PROCESS_BYTES * (double)c->n_agents;
    e.log = e.rows * (double)e.row_bytes;
    if (kept == 0)
        kept = steps > 0 && c->checkpoint.every_env_steps > 0
                   ? ceil(steps / (double)c->checkpoint.every_env_steps)
                   : 1;
    e.checkpoints = (kept + 1) * blocks; /* one more while it is written */
    *ret = e;
}

struct making {
    struct estimate *most;
    const struct env_spec *spec;
    const uint64_t *block_bytes;
    int64_t steps; /* of the run; 0: unknown */
};

static int estimate_later(void *ctx, uint64_t at, const struct run_config *now,
                          struct err *err)
{
    const struct making *m = ctx;
    struct estimate later = {.row_bytes = m->most->row_bytes};

    (void)err;
    if (m->steps > 0 && at >= (uint64_t)m->steps)
        return 0; /* the run is over before */
    estimate_now(&later, now, m->spec, m->block_bytes);
    /* of two moments of a run, what takes more */
    m->most->batches = fmax(m->most->batches, later.batches);
    m->most->messages = fmax(m->most->messages, later.messages);
    m->most->rows = fmax(m->most->rows, later.rows);
    m->most->log = fmax(m->most->log, later.log);
    m->most->checkpoints = fmax(m->most->checkpoints, later.checkpoints);
    if (m->most->limit.bytes == 0)
        m->most->limit = later.limit;
    return 0;
}

int estimate_make(struct estimate *ret, const struct run_config *c,
                  const struct env_spec *spec, const struct description *descriptions,
                  const uint64_t *block_bytes, struct err *err)
{
    struct estimate e = {0};
    struct making m = {&e, spec, block_bytes, run_config_most_steps(c)};
    int rc = row_bytes(&e.row_bytes, spec, descriptions, err);

    if (rc < 0)
        return rc;
    estimate_now(&e, c, spec, block_bytes);
    if (c->plan != NULL)
        rc = change_plan_each_step(c->plan, c, estimate_later, &m, err);
    *ret = e;
    return rc;
}

double estimate_memory(const struct estimate *e)
{
    return e->weights + e->batches + e->messages + e->processes;
}

double estimate_disk(const struct estimate *e)
{
    return e->log + e->checkpoints;
}

/* ---- memory and disk of this machine ---- */

/* Memory and swap of the machine, or the limit of this process's group if that is less. */
static double machine_memory(void)
{
    char line[256];
    double total = 0, limit;
    FILE *f = fopen("/proc/meminfo", "re");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "MemTotal:", 9) == 0 || strncmp(line, "SwapTotal:", 10) == 0)
            total += 1024 * strtod(strchr(line, ':') + 1, NULL);
    if (f != NULL)
        (void)fclose(f);
    f = fopen("/sys/fs/cgroup/memory.max", "re"); /* "max", or bytes */
    if (f != NULL && fgets(line, sizeof(line), f) != NULL &&
        (limit = strtod(line, NULL)) > 0 && limit < total)
        total = limit;
    if (f != NULL)
        (void)fclose(f);
    return total > 0 ? total : HUGE_VAL;
}

/* Reads the space on the disk where `dir` is or will be made. Returns 0 if it is unknown: a
 * ramfs, whose limit is the memory, has 0 blocks of which 0 are free. */
static int disk_space(const char *dir, double *ret_free, double *ret_all)
{
    char *path = tree_nearest(dir);
    struct statvfs s;
    const int rc = statvfs(path, &s);

    free(path);
    if (rc < 0 || s.f_blocks == 0)
        return 0;
    *ret_free = (double)s.f_bavail * (double)s.f_frsize;
    *ret_all = (double)s.f_blocks * (double)s.f_frsize;
    return 1;
}

/* ---- whether it fits ---- */

const char *estimate_text(double bytes, char buf[SIZE_TEXT_BYTES])
{
    return size_text(bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1000000000000000000), buf);
}

static const char *length_key(const struct run_config *c)
{
    return c->run.env_steps > 0 ? "run.env_steps" : "run.episodes";
}

/* Checks only the space for the window, all of which learning needs. The log needs more
 * only if the run reaches its end, and on a full disk the run waits for space. */
static int check_disk(const struct estimate *e, const struct run_config *c,
                      const char *dir, struct err *err)
{
    const double window = (double)run_config_log_window(c);
    const double rows = fmin(e->rows, window), takes = rows * (double)e->row_bytes;
    char text[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES];
    double space, all;

    if (!disk_space(dir, &space, &all) || takes <= all)
        return 0;
    return err_set_at(
        err, ERR_CONFIG,
        ERR_AT(.key = rows < window ? length_key(c) : "experience.capacity"),
        "%.0f rows of %llu bytes take %s, more than the disk of %s has (%s)", rows,
        (unsigned long long)e->row_bytes, estimate_text(takes, text), dir,
        estimate_text(all, has));
}

char *estimate_shortage(const struct estimate *e, const struct run_config *c,
                        const char *dir)
{
    const int is_whole = e->rows == (double)run_config_most_steps(c);
    const double takes = estimate_disk(e);
    char text[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES];
    const char *key = "experience.capacity";
    double space, all;

    if (!disk_space(dir, &space, &all) || takes <= fmax(space, LITTLE_DISK_BYTES))
        return NULL;
    if (e->checkpoints > e->log)
        key = "checkpoint.max_to_keep";
    else if (is_whole)
        key = length_key(c);
    return xasprintf("%s: the run takes about %s of disk, and %s has %s free", key,
                     estimate_text(takes, text), dir, estimate_text(space, has));
}

int estimate_check(const struct estimate *e, const struct run_config *c, const char *dir,
                   size_t *ret_agent, struct err *err)
{
    const double memory = machine_memory(), takes = estimate_memory(e);
    char text[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES], part[SIZE_TEXT_BYTES];
    double most = e->weights;
    const char *key = "critic.hidden", *what = "weights";

    if (e->limit.bytes > 0) {
        *ret_agent = e->limit.agent;
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "memory_limit"),
                          "found %s, and its process takes about %s at least",
                          size_text_limit((uint64_t)e->limit.bytes, has),
                          size_text_limit((uint64_t)e->limit.least, text));
    }
    *ret_agent = c->n_agents;
    if (takes <= memory)
        return check_disk(e, c, dir, err);
    if (e->batches > most) {
        most = e->batches;
        key = "experience.batch_size";
        what = "batches";
    }
    if (e->messages > most) {
        most = e->messages;
        key = "env.copies";
        what = "messages";
    }
    if (most == e->weights)
        *ret_agent = e->largest;
    return err_set_at(
        err, ERR_CONFIG, ERR_AT(.key = key),
        "the run takes about %s of memory (%s: %s), and this machine has %s",
        estimate_text(takes, text), what, estimate_text(most, part),
        estimate_text(memory, has));
}
