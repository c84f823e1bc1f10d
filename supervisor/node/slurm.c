#include "supervisor/node/slurm.h"

#include "common/config/run_schema.h"
#include "common/io/monotonic.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/node/placement.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SUBMIT_MS = 60000,
    CHECK_MS = 20000, /* for an answer of Slurm before a run */
    LOOK_MS = 10000,
    TERM_MS = 1000,       /* for srun, from SIGTERM until SIGKILL */
    PAUSE_MS = 50,        /* between two questions about what was cancelled */
    ASK_MS = 5000,        /* for squeue and scancel; Slurm's own limit is longer */
    LIST_BYTES = 1 << 18, /* of the ids in it */
    IDS_BYTES = 1024,
};

/* ---- the allocation ---- */

const char *slurm_job(void)
{
    const char *id = getenv("SLURM_JOB_ID");

    return id != NULL && *id != '\0' ? id : NULL;
}

void slurm_cancel_own_job(const char *why)
{
    const char *job = slurm_job();

    if (job == NULL)
        return;
    log_info("%s: Slurm job %s is cancelled", why, job);
    (void)execlp("scancel", "scancel", "--quiet", job, (char *)NULL);
}

/* 0: unknown. */
static size_t nodes_of_job(void)
{
    const char *n = slurm_job() != NULL ? getenv("SLURM_JOB_NUM_NODES") : NULL;

    return n != NULL ? (size_t)strtoul(n, NULL, 10) : 0;
}

size_t slurm_nodes(const struct cluster_config *config)
{
    const size_t n = nodes_of_job();

    if (config->nodes > 0)
        return (size_t)config->nodes;
    return n > 0 ? n : 1;
}

/* ---- checks ---- */

/* Options that would contradict those that each node's srun gets. */
static int check_options(const struct cluster_config *config, struct err *err)
{
    static const char *const own[] = {"--jobid", "--ntasks", "--nodes", "--input"};
    const struct yaml_node *list = config->options;

    for (size_t i = 0; list != NULL && i < list->n; i++) {
        const char *word = list->child[i]->text;

        for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
            if (text_is_word(word, strcspn(word, "="), own[k]))
                return yaml_fail(list->child[i], "cluster.options", err,
                                 "%s is not possible here: each node is one task of its "
                                 "own, in the job of SLURM_JOB_ID if there is one",
                                 own[k]);
    }
    return 0;
}

int slurm_check(const struct cluster_config *config, struct err *err)
{
    static const char *const programs[] = {"srun", "squeue", "scancel"};
    const size_t there = nodes_of_job();

    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        if (!command_is_on_path(".", programs[i]))
            return err_set(err, ERR_CONFIG,
                           "cluster.launcher: slurm needs the program %s, and PATH has "
                           "none of that name",
                           programs[i]);
    if (there > 0 && config->nodes > (int64_t)there)
        return err_set(err, ERR_CONFIG,
                       "cluster.nodes: %lld nodes are asked for, and Slurm job %s has "
                       "%zu: leave the key out, or give sbatch or salloc --nodes=%lld",
                       (long long)config->nodes, slurm_job(), there,
                       (long long)config->nodes);
    return check_options(config, err);
}

int slurm_check_job(const struct cluster_config *config, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    char *output = NULL;
    int rc = slurm_check(config, err);

    if (rc < 0 || slurm_job() != NULL)
        return rc;
    words_add(&w, "srun", "--test-only", NULL);
    placement_add_options(config, &w);
    words_add(&w, "--nodes=1", "--ntasks=1", "true", NULL);
    rc = command_ask(w.list, CHECK_MS, &output, err);
    free(output);
    arena_done(&arena);
    return rc < 0 ? err_wrap(err, "cluster: Slurm would not start a node") : 0;
}

/* ---- the command ---- */

void slurm_make_name(char ret[SLURM_NAME_BYTES], const char *run, size_t node,
                     const uint8_t id[CHANNEL_ID_BYTES])
{
    static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                               "0123456789_.-";
    size_t n = (size_t)snprintf(ret, SLURM_NAME_BYTES, "brood-");

    for (; *run != '\0' && n < SLURM_NAME_BYTES / 2; run++) /* commas separate names */
        ret[n++] = *run;
    n += (size_t)snprintf(ret + n, SLURM_NAME_BYTES - n, "-%zu-", node);
    for (size_t i = 0; i < 6; i++)
        n += (size_t)snprintf(ret + n, SLURM_NAME_BYTES - n, "%02x", id[i]);
    for (char *c = ret; *c != '\0'; c++)
        if (strchr(kept, *c) == NULL)
            *c = '_';
}

void slurm_add_words(struct words *w, const struct cluster_config *config, size_t node,
                     const char *name)
{
    const char *job = slurm_job();

    /* Its messages come at once; this process's own limits, such as that on open files, are
     * not those of the node's machine. */
    words_add(w, "srun", "--unbuffered", "--propagate=NONE", NULL);
    placement_add_options(config, w);
    /* Each node is a task of its own; inside of a job, a step on the job's machine `node`. */
    words_add(w, "--nodes=1", "--ntasks=1", arena_printf(w->arena, "--job-name=%s", name),
              NULL);
    if (job != NULL)
        words_add(w, arena_printf(w->arena, "--jobid=%s", job),
                  arena_printf(w->arena, "--relative=%zu", node), "--overlap", NULL);
}

int slurm_says_waiting(const char *output)
{
    return strstr(output, "queued and waiting for resources") != NULL &&
           strstr(output, "has been allocated resources") == NULL;
}

size_t slurm_find_ids(const char *lines, const char *name, char *ret, size_t size)
{
    size_t n = 0, len = 0;

    ret[0] = '\0';
    for (const char *line = lines; *line != '\0';
         line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t end = strcspn(line, "\n"), id = strspn(line, "0123456789._+");
        const char *rest = line + id + strspn(line + id, " ");
        const size_t rest_len = (size_t)(line + end - rest);

        if (id == 0 || rest_len < strlen(name) ||
            strncmp(rest, name, strlen(name)) != 0 ||
            strspn(rest + strlen(name), " ") != rest_len - strlen(name) ||
            len + id + 2 > size)
            continue;
        memcpy(ret + len, line, id);
        len += id;
        ret[len++] = ' ';
        ret[len] = '\0';
        n++;
    }
    return n;
}

/* The words of squeue that list jobs of a name or, inside of a job, all of its steps. which:
 * holds one of them. */
static void add_listing(const char *words[8], const char *name,
                        char which[SLURM_NAME_BYTES + 16])
{
    const char *job = slurm_job();
    size_t n = 0;

    if (job != NULL)
        (void)snprintf(which, SLURM_NAME_BYTES + 16, "--jobs=%.32s", job);
    else
        (void)snprintf(which, SLURM_NAME_BYTES + 16, "--name=%s", name);
    words[n++] = "squeue";
    words[n++] = "--noheader";
    words[n++] = "--format=%i %j";
    words[n++] = which;
    if (job != NULL)
        words[n++] = "--steps";
}

/* ---- batch jobs ---- */

int slurm_submit(const char *script, char **ret_id, struct err *err)
{
    const char *const argv[] = {"sbatch", "--parsable", script, NULL};
    char *output = NULL, *line;
    int rc = command_ask(argv, SUBMIT_MS, &output, err);

    if (rc < 0)
        return rc;
    line = command_last_line(output); /* "12" or "12;cluster" */
    line[strspn(line, "0123456789")] = '\0';
    if (*line == '\0')
        rc = err_set(err, ERR_FORMAT, "sbatch printed no job id");
    else
        *ret_id = xstrdup(line);
    free(output);
    return rc;
}

void slurm_look(const char *id, char state[SLURM_STATE_BYTES],
                char reason[SLURM_REASON_BYTES])
{
    char which[SLURM_NAME_BYTES], *output = NULL;
    const char *const argv[] = {"squeue",         "--noheader", "--states=all",
                                "--format=%T %r", which,        NULL};
    struct err err = {0};

    state[0] = reason[0] = '\0';
    (void)snprintf(which, sizeof(which), "--jobs=%s", id);
    if (command_ask(argv, LOOK_MS, &output, &err) == 0) { /* "PENDING Resources" */
        (void)sscanf(command_last_line(output), "%63s %127[^\n]", state, reason);
        free(output);
    } else if (strstr(err.msg, "Invalid job id") == NULL) {
        (void)snprintf(state, SLURM_STATE_BYTES, "unknown");
        (void)snprintf(reason, SLURM_REASON_BYTES, "%.127s", err.msg);
        return;
    }
    if (strcmp(state, "PENDING") != 0 || strcmp(reason, "None") == 0)
        reason[0] = '\0';
    if (state[0] == '\0') /* Slurm forgets a job some minutes after its end */
        (void)snprintf(state, SLURM_STATE_BYTES, "over");
}

/* ---- an interrupt ---- */

/* Whether a list of ids, each followed by a space, has that one. */
static int has_id(const char *ids, const char *id)
{
    for (const char *at = ids; at != NULL && *at != '\0';
         at += strcspn(at, " "), at += *at == ' ')
        if (text_is_word(at, strcspn(at, " "), id))
            return 1;
    return 0;
}

static void add_id(char **ids, const char *id)
{
    char *all = xasprintf("%s%s ", *ids != NULL ? *ids : "", id);

    free(*ids);
    *ids = all;
}

/* Returns 0 if Slurm did not answer in time. */
static int run_scancel(const char *const *words)
{
    char *output = NULL;
    struct err err = {0};
    const int rc = command_ask(words, CHECK_MS, &output, &err);

    free(output);
    return rc == 0 || err.code != ERR_TIMEOUT; /* any other: it is over meanwhile */
}

/* ids: each followed by a space; it is cut. */
static void signal_new(char *ids, char **known)
{
    for (char *id = strtok(ids, " "); id != NULL;) {
        const char *words[PROGRAM_MAX_WORDS] = {"scancel", "--quiet", "--signal=TERM"};
        size_t first = 3, n = first;

        for (; id != NULL && n + 1 < PROGRAM_MAX_WORDS; id = strtok(NULL, " "))
            if (!has_id(*known, id))
                words[n++] = id;
        if (n > first && run_scancel(words))
            while (first < n)
                add_id(known, words[first++]);
    }
}

void slurm_interrupt(const char *name, char **known)
{
    char which[SLURM_NAME_BYTES + 16], *output = NULL, *ids;
    const char *words[8] = {0};

    if (slurm_job() == NULL) {
        (void)snprintf(which, sizeof(which), "--name=%s", name);
        (void)run_scancel(
            (const char *const[]){"scancel", "--quiet", "--state=PENDING", which, NULL});
    }
    add_listing(words, name, which);
    if (command_ask(words, CHECK_MS, &output, NULL) < 0)
        return;
    ids = xcalloc(LIST_BYTES, 1);
    (void)slurm_find_ids(output, name, ids, LIST_BYTES);
    signal_new(ids, known);
    free(ids);
    free(output);
}

/* ---- the fence ---- */

void slurm_fence_set(struct slurm_fence *f, const char *name)
{
    *f = (struct slurm_fence){.state = SLURM_FENCE_SET};
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
}

void slurm_fence_clear(struct slurm_fence *f)
{
    if (f->state == SLURM_FENCE_SET)
        f->state = SLURM_FENCE_NONE;
}

void slurm_end_srun(struct slurm_fence *f, const struct program *srun)
{
    const uint64_t now = (uint64_t)monotonic_ms();

    if (!f->is_terminated) {
        f->is_terminated = 1;
        f->since_ms = now;
        program_signal(srun, SIGTERM);
    } else if (now - f->since_ms > TERM_MS) {
        program_kill(srun);
    }
}

static int slurm_ask(struct slurm_fence *f, const char *const *words)
{
    f->asked_ms = (uint64_t)monotonic_ms();
    f->ask = (struct asked_command){.argv = words};
    return command_begin(&f->ask, ASK_MS);
}

static void pause_fence(struct slurm_fence *f)
{
    f->state = SLURM_FENCE_PAUSING;
    f->asked_ms = (uint64_t)monotonic_ms();
}

static void begin_listing(struct slurm_fence *f)
{
    char which[SLURM_NAME_BYTES + 16];
    const char *words[8] = {0};

    f->state = SLURM_FENCE_LISTING;
    add_listing(words, f->name, which);
    if (slurm_ask(f, words) < 0)
        pause_fence(f);
}

static int is_over(struct slurm_fence *f)
{
    f->state = SLURM_FENCE_NONE;
    return 1;
}

/* squeue or scancel has ended. Returns 1 if nothing is left. */
static int take_answer(struct slurm_fence *f)
{
    const int is_good = f->ask.err.code == 0;
    const int is_list = f->state == SLURM_FENCE_LISTING && is_good;
    char ids[IDS_BYTES];
    const size_t n =
        is_list ? slurm_find_ids(f->ask.output, f->name, ids, sizeof(ids)) : 0;

    pause_fence(f);
    if (!is_good)
        log_warn("%s", f->ask.err.msg);
    free(f->ask.output);
    if (is_list && n == 0)
        return is_over(f);
    if (n > 0) {
        const char *words[18] = {"scancel"};
        size_t n_words = 1;

        for (char *id = strtok(ids, " "); id != NULL && n_words < 16;
             id = strtok(NULL, " "))
            words[n_words++] = id;
        log_info("scancel %s, of %s", words[1], f->name);
        f->state = SLURM_FENCE_CANCELLING;
        if (slurm_ask(f, words) < 0)
            pause_fence(f);
    }
    return 0;
}

int slurm_fence_end(struct slurm_fence *f, uint64_t within_ms)
{
    const uint64_t now = (uint64_t)monotonic_ms();

    if (f->state == SLURM_FENCE_NONE)
        return 1;
    if (f->state == SLURM_FENCE_SET) {
        f->since_ms = now;
        begin_listing(f);
        return 0;
    }
    if (f->ask.program.pid != 0) {
        if (now - f->since_ms > within_ms)
            f->ask.program.until_ms = 0;
        return command_look(&f->ask) ? take_answer(f) : 0;
    }
    if (now - f->since_ms > within_ms) {
        log_warn("Slurm does not say that %s has ended; it must have, without its "
                 "connection",
                 f->name);
        return is_over(f);
    }
    if (now - f->asked_ms > PAUSE_MS)
        begin_listing(f);
    return 0;
}

void slurm_fence_done(struct slurm_fence *f)
{
    if (f->ask.program.pid != 0) {
        command_cancel(&f->ask);
        free(f->ask.output);
    }
    *f = (struct slurm_fence){0};
}
