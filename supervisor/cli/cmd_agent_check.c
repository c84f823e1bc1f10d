/* `brood agent-check`: tries agents that are programs. It finds out what a run would send them,
 * and goes on as `python3 -m brood.check` (scripts/python/brood/check.py), which does the work. */
#include "common/config/yaml_tree.h"
#include "common/io/python_folder.h"
#include "common/io/write_all.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/msg/msg.h"
#include "common/text/scan.h"
#include "supervisor/ask/describe.h"
#include "supervisor/cli/cli.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rollout/rollout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_UPDATES = 1000 };

struct request {
    const char *env, *actions;
    long long updates;
    struct cli_texts sets;
    int fd; /* a memfd with a notification `check` and a request for each agent */
    const char *python; /* that executes brood.check; NULL: none is known yet */
    struct arena *arena;
};

static int is_config(const char *path)
{
    return text_ends_with(path, ".yaml") || text_ends_with(path, ".yml");
}

/* A configuration whose agents are the program in that file. */
static int make_config(const struct request *r, const char *path,
                       const struct config_options *options, struct run_config *ret,
                       struct err *err)
{
    char *file = realpath(path, NULL), *text;
    struct err why = {0};
    int rc;

    if (file == NULL)
        return err_errno(err, "%s", path);
    text = xasprintf(
        "env: {id: %s}\ndefaults:\n  algorithm: program\n  command: [%s\"%s\"]\n", r->env,
        text_ends_with(path, ".py") ? "python3, " : "", file);
    rc = run_config_parse(ret, text, strlen(text), "agent-check", options, &why);
    free(text);
    free(file);
    if (rc < 0)
        return err_set(err, why.code, "%s: %s", path, err_cause(&why));
    return 0;
}

static int is_python(const char *word)
{
    return text_after(text_base_name(word), "python") != NULL;
}

/* Whether a program is started, configured and asked as an agent before it is. */
static int is_like_earlier(const struct run_config *c, const struct env_spec *spec,
                           size_t agent)
{
    const struct env_agent *own = &spec->agents[agent];

    for (size_t i = 0; i < agent; i++)
        if (agent_config_is_same(&c->agents[i], &c->agents[agent]) &&
            env_sees_alike(&spec->agents[i], own) &&
            env_acts_alike(&spec->agents[i], own))
            return 1;
    return 0;
}

/* Writes what the program is to be tried with. */
static int put_agent(struct request *r, const char *path, const struct run_config *c,
                     const struct env_spec *spec, size_t agent, struct err *err)
{
    const struct experience_config x = run_config_experience(c, agent);
    const struct agent_config *a = &c->agents[agent];
    const char *word = a->command->n > 0 ? a->command->child[0]->text : NULL;
    const uint8_t *frame;
    struct msg_out out;
    size_t len;
    int rc;

    if (r->python == NULL && word != NULL && is_python(word))
        r->python = arena_strdup(r->arena, word);
    msg_out_init(&out);
    msg_begin_notification(&out, "check");
    msg_map(&out, 5);
    msg_put_str(&out, "file", path);
    msg_put_str(&out, "agent", spec->agents[agent].name);
    msg_put_u64(&out, "rows", (uint64_t)x.batch_size);
    msg_put_u64(&out, "copies", (uint64_t)c->env.copies);
    msg_put_u64(&out, "update_every", (uint64_t)x.update_every);
    msg_end(&out, &frame, &len);
    rc = write_all(r->fd, frame, len);
    if (rc == 0) {
        msg_begin_request(&out, 0, "configure");
        rollout_pack_configure(c, spec, agent, 0, NULL, &out);
        msg_end(&out, &frame, &len);
        rc = write_all(r->fd, frame, len);
    }
    msg_out_done(&out);
    return rc < 0 ? err_errno(err, "what the agents are tried with") : 0;
}

/* path: a configuration or the file of a program. */
static int put_agents(struct request *r, const char *path,
                      const struct config_options *options, struct err *err)
{
    struct run_config c = {0};
    struct vec_env *env = NULL;
    const struct env_spec *spec;
    size_t n = 0;
    int rc = is_config(path) ? run_config_read(&c, path, options, err)
                             : make_config(r, path, options, &c, err);

    if (rc == 0)
        rc = vec_env_new(&env, &c.env, c.run.seed, ENV_DRAWS_TRAINING, 1, err);
    spec = rc == 0 ? vec_env_spec(env) : NULL;
    for (size_t i = 0; rc == 0 && i < c.n_agents; i++) {
        if (c.agents[i].command == NULL)
            continue;
        n++;
        if (!is_like_earlier(&c, spec, i))
            rc = put_agent(r, path, &c, spec, i, err);
    }
    if (rc == 0 && n == 0)
        rc = err_set(err, ERR_CONFIG,
                     "%s: none of its agents is a program (algorithm: program)", path);
    vec_env_free(env);
    run_config_done(&c);
    return rc;
}

/* Goes on as brood.check. Returns only if that failed. */
static int execute(const struct cli *cli, const struct request *r, struct err *err)
{
    struct words words = {.arena = r->arena};
    const char *python = r->python != NULL ? r->python : "python3";
    struct binaries bin;
    int rc = binaries_find(&bin, err);

    if (rc < 0)
        return rc;
    words_add(&words, python, "-m", "brood.check", "--configured",
              arena_printf(r->arena, "/proc/self/fd/%d", r->fd), "--agent-exe", bin.agent,
              "--updates", arena_printf(r->arena, "%lld", r->updates), NULL);
    if (r->actions != NULL)
        words_add(&words, "--actions", r->actions, NULL);
    if (cli->json)
        words_add(&words, "--json", NULL);
    if (cli->quiet)
        words_add(&words, "--quiet", NULL);
    python_folder_add(NULL);
    (void)execvp(python, words_argv(&words));
    return err_errno(err, "%s", python);
}

static int run_agent_check(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *r = values;
    struct config_options options = {.env_names = env_agent_names,
                                     .describe = describe_program,
                                     .dropped = cli_dropped,
                                     .dropped_ctx = cli,
                                     .extends = 1};
    struct err err = {0};
    int rc = 0;

    if (argc == 0)
        return cli_usage(cli, "expected a program or a configuration");
    if (env_info_find(r->env) == NULL) {
        (void)err_set(&err, ERR_CONFIG, "there is no environment '%.100s'", r->env);
        (void)env_info_add_nearest(r->env, &err);
        return cli_fail(cli, CLI_USAGE, &err);
    }
    options.set = r->sets.text;
    options.n_set = r->sets.n;
    r->arena = &cli->arena;
    r->fd = memfd_create("brood-check", 0);
    if (r->fd < 0)
        rc = err_errno(&err, "memfd_create");
    for (int i = 0; i < argc && rc == 0; i++)
        rc = put_agents(r, argv[i], &options, &err);
    if (rc == 0)
        rc = execute(cli, r, &err);
    if (r->fd >= 0)
        (void)close(r->fd);
    return cli_fail(cli, CLI_USAGE, &err);
}

static const struct cli_option options[] = {
    {"env", "ENV", "the environment whose sizes an agent in FILE gets (simple_spread)",
     CLI_TEXT(struct request, env)},
    {"actions", "KIND",
     "discrete, heads (several choices), continuous, masked or hybrid,\n"
     "in place of those of the environment",
     CLI_TEXT(struct request, actions)},
    {"updates", "N", "length of the short run (3)",
     CLI_NUMBER(struct request, updates, 1, MAX_UPDATES)},
    {"set", "KEY=VALUE", "with this value (repeatable)", CLI_TEXTS(struct request, sets)},
    {0}};

const struct command cmd_agent_check = {
    .name = "agent-check",
    .arguments = "FILE | CONFIG... [options]",
    .summary = "Try an agent of your own for faults, without a run",
    .options = options,
    CLI_INTO(struct request, .env = "simple_spread", .updates = 3, .fd = -1),
    .help = "\nFILE is a program in Python, or one that can be executed; CONFIG, "
            "FILE.yaml, one with\n"
            "agents that are programs. A short run is played with random experience, "
            "each of its\n"
            "requests is repeated by a process of its own, and masks, modes, batches, "
            "settings and\n"
            "draws are tried. A line for each check: ok, note or FAULT with file and "
            "line. The exit\n"
            "code is 0 without faults, and 1 with some. It needs Python with NumPy and "
            "msgpack.\n"
            "\nexample: brood agent-check tests/examples/agents/numpy_q.py --updates 2\n",
    .run = run_agent_check,
};
