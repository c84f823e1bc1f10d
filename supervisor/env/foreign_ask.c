/* What an environment of others' is, asked of a process of it. */
#include "supervisor/env/foreign.h"

#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/proc/binaries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_DEADLINE_MS = 2000 };

/* The last answer: a configuration is read several times, and a live run's may be read
 * at any time, when nothing may wait. */
static struct {
    char *question;
    struct arena arena;
    struct env_spec spec;
    int holds; /* of environments that live */
} kept;

struct asking {
    struct foreign foreign;
    struct agent_table *table;
    struct arena *arena;
    struct env_spec *spec;
    struct err failure;
};

void foreign_hold(int delta)
{
    kept.holds += delta;
}

/* All that an answer can depend on. */
static char *question_of(const struct foreign *f)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    CHECK(out != NULL, "no memory");
    for (size_t i = 0; f->command[i] != NULL; i++)
        (void)fprintf(out, "%zu:%s ", strlen(f->command[i]), f->command[i]);
    (void)fprintf(out, "%s %s ", f->mode != NULL ? f->mode : "",
                  f->directory != NULL ? f->directory : "");
    if (f->params != NULL)
        yaml_tree_write(f->params, out);
    CHECK(fclose(out) == 0, "no memory");
    return text;
}

static void stop(struct asking *a, const struct err *why)
{
    if (a->failure.code == 0 && why != NULL)
        a->failure = *why;
    agent_table_stop(a->table, STOP_DEADLINE_MS);
}

static void on_event(void *ctx, const struct agent_event *e)
{
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    stop(ctx, report);
}

static void on_ready(void *ctx)
{
    struct asking *a = ctx;
    struct err err = {0};
    int r = foreign_parse(a->spec, &agent_table_description(a->table, 0)->body, a->arena,
                          &err);

    if (r < 0)
        (void)err_wrap(&err, "its answer to configure");
    stop(a, r < 0 ? &err : NULL);
}

static void on_stopped(void *ctx)
{
    /* the loop runs dry */
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct asking *a = ctx;

    foreign_pack_configure(&a->foreign, 1, 0, o);
}

static int run(struct asking *a, int exe_fd, struct err *err)
{
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = a};
    const struct agent_spec spec = {.name = "environment",
                                    .role = "environment",
                                    .pack_configure = pack_configure,
                                    .limits = &a->foreign.limits,
                                    .command = a->foreign.command,
                                    .mode = a->foreign.mode,
                                    .directory = a->foreign.directory,
                                    .is_trial = 1};
    uv_loop_t loop;
    int r;

    CHECK(uv_loop_init(&loop) == 0);
    r = agent_table_new(&a->table, &loop, exe_fd, -1, &spec, 1, &cb, err);
    if (r == 0)
        r = agent_table_start(a->table, err);
    if (r == 0) {
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        r = a->failure.code;
        if (r < 0)
            (void)err_set(err, r, "%s", a->failure.msg);
    }
    agent_table_free(a->table);
    CHECK(uv_loop_close(&loop) == 0, "a handle was left open");
    return r;
}

static int ask(struct env_spec *ret, const struct foreign *f, struct arena *arena,
               struct err *err)
{
    struct asking a = {.foreign = *f, .arena = arena, .spec = ret};
    struct binaries bin;
    int fd, r;

    if ((r = binaries_find(&bin, err)) < 0 || (fd = binaries_open_agent(&bin, err)) < 0)
        return r < 0 ? r : fd;
    r = run(&a, fd, err);
    (void)close(fd);
    return r;
}

static int ask_anew(const struct foreign *f, char *question, struct err *err)
{
    int r;

    if (kept.holds > 0)
        r = err_set(err, ERR_STATE,
                    "the environment of a live run cannot be another; stop the run, and "
                    "begin a new one");
    else {
        arena_reset(&kept.arena);
        free(kept.question);
        kept.question = NULL;
        r = ask(&kept.spec, f, &kept.arena, err);
    }
    if (r < 0)
        free(question);
    else
        kept.question = question;
    return r;
}

int foreign_ask(struct env_spec *ret, const struct env_config *config,
                struct arena *arena, struct err *err)
{
    struct foreign f;
    char *question;
    int r = 0;

    foreign_init(&f, config, arena);
    question = question_of(&f);
    if (kept.question != NULL && strcmp(question, kept.question) == 0)
        free(question);
    else
        r = ask_anew(&f, question, err);
    if (r < 0)
        return r;
    *ret = kept.spec;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    memcpy(ret->agents, kept.spec.agents, ret->n_agents * sizeof(*ret->agents));
    return 0;
}
