#include "supervisor/env/external.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "supervisor/ask/ask.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/external_world.h"
#include "supervisor/proc/binaries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last answer is kept, because a command reads a configuration several times and then
 * creates its environment: asking again for the same configuration starts nothing. */
static struct {
    char *question;
    struct arena arena;
    struct env_spec spec;
} kept;

/* Returns, as text, everything that the answer can depend on. */
static char *question_of(const struct external *f)
{
    struct xstream text;
    FILE *out = xstream_begin(&text);

    for (size_t i = 0; f->command[i] != NULL; i++)
        (void)fprintf(out, "%zu:%s ", strlen(f->command[i]), f->command[i]);
    (void)fprintf(out, "%s %s ", f->mode != NULL ? f->mode : "",
                  f->directory != NULL ? f->directory : "");
    if (f->params != NULL)
        yaml_tree_write(f->params, out);
    return xstream_end(&text);
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    external_pack_configure(ctx, 1, 0, o);
}

/* ERR_AGENT: signals ended the process before it answered. ERR_CONFIG: it failed for reasons of
 * its own. */
static int ask_process(struct env_spec *ret, struct external *f, struct arena *arena,
                       struct err *err)
{
    const struct agent_spec spec = {.name = "environment",
                                    .role = "environment",
                                    .pack_configure = pack_configure,
                                    .limits = &f->limits,
                                    .command = f->command,
                                    .mode = f->mode,
                                    .directory = f->directory,
                                    .is_trial = 1};
    struct ask_args args = {.specs = &spec, .n = 1, .ctx = f};
    struct binaries bin;
    struct ask *ask;
    int rc = binaries_find(&bin, err);

    if (rc < 0 || (rc = binaries_open_agent(&bin, err)) < 0)
        return rc;
    args.agent_exe_fd = rc;
    rc = ask_open(&ask, &args, err);
    (void)close(args.agent_exe_fd);
    if (rc == 0) {
        rc = external_parse(ret, ask_answer(ask, 0), arena, err);
        if (rc < 0)
            (void)err_wrap(err, "its answer to configure");
    }
    if (rc < 0 && ask_process_failed(ask) && rc != ERR_INTERRUPTED)
        rc = ask_process_was_killed(ask) ? ERR_AGENT : ERR_CONFIG;
    if (rc < 0 && err != NULL)
        err->code = rc;
    ask_close(ask);
    return rc;
}

static int ask_anew(struct external *f, char *question, struct err *err)
{
    int rc;

    free(kept.question);
    kept.question = NULL;
    arena_reset(&kept.arena);
    rc = ask_process(&kept.spec, f, &kept.arena, err);
    if (rc < 0 && f->directory != NULL && access(f->directory, X_OK) < 0)
        (void)err_add(err, "if it has moved, env.directory says where it is now");
    if (rc < 0)
        free(question);
    else
        kept.question = question;
    return rc;
}

/* ---- the environment as a row of the registry ---- */

/* Starts a process, asks for its description, and ends it. If a signal kills it meanwhile,
 * another one is asked, up to three in all. */
static int describe(const struct env_class *class, const struct env_config *config,
                    const void *params, struct arena *arena, struct env_spec *ret,
                    struct err *err)
{
    struct external f;
    char *question;
    int rc = 0;

    external_init(&f, config, arena);
    question = question_of(&f);
    if (kept.question != NULL && strcmp(question, kept.question) == 0)
        free(question);
    else
        rc = ask_anew(&f, question, err);
    if (rc < 0)
        return rc;
    *ret = kept.spec;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    memcpy(ret->agents, kept.spec.agents, ret->n_agents * sizeof(*ret->agents));
    return 0;
}

static void reset(void *world, size_t copy, const struct env_episode *episode)
{
    uint32_t words[4];

    rng_block(episode->key, episode->episode, 0, words);
    external_world_reset(world, copy, words[0] | (uint64_t)words[1] << 32);
}

static size_t state_bytes(const void *world)
{
    return external_world_state_bytes(world);
}

static void save(const void *world, void *dst)
{
    external_world_save(world, dst);
}

static void draw(const void *world, size_t copy, struct scene *ret)
{
    external_world_draw(world, ret);
}

const struct env_ops external_ops = {
    .describe = describe,
    .reset = reset,
    .state_bytes = state_bytes,
    .save = save,
    .draw = draw,
};
