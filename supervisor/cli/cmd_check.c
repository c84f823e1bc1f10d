#include "supervisor/cli/cli.h"
#include "supervisor/cli/train.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/change_read.h"
#include "supervisor/begin/policies.h"
#include "supervisor/begin/trial.h"
#include "supervisor/env/env.h"
#include "supervisor/env/env_trial.h"
#include "supervisor/facts/record.h"
#include "supervisor/metrics/json.h"
#include "supervisor/node/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STDIN_MAX_BYTES = YAML_MAX_BYTES + 1 }; /* more than the parser accepts */

static void put_estimate(struct json *j, const struct estimate *e)
{
    const struct {
        const char *key;
        double bytes;
    } parts[] = {{"memory", estimate_memory(e)},
                 {"weights", e->weights},
                 {"batches", e->batches},
                 {"messages", e->messages},
                 {"processes", e->processes},
                 {"disk", estimate_disk(e)},
                 {"log", e->log},
                 {"checkpoints", e->checkpoints}};

    json_put_object(j, "estimated_bytes");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        json_put_f64(j, parts[i].key, parts[i].bytes);
    json_close(j);
}

static void print_estimate(const struct estimate *e)
{
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES], c[SIZE_TEXT_BYTES], d[SIZE_TEXT_BYTES];

    (void)printf("  about %s of memory: %s weights, %s batches, ",
                 estimate_text(estimate_memory(e), a), estimate_text(e->weights, b),
                 estimate_text(e->batches, c));
    (void)printf("%s messages, %s processes\n", estimate_text(e->messages, a),
                 estimate_text(e->processes, b));
    (void)printf("  about %s of disk: %s log (%.0f rows of %s), %s checkpoints\n",
                 estimate_text(estimate_disk(e), a), estimate_text(e->log, b), e->rows,
                 estimate_text((double)e->row_bytes, c),
                 estimate_text(e->checkpoints, d));
}

/* A number that depends on the run's length, but stays as it is if that changes. */
static void print_schedule(const struct run_config *c)
{
    const struct priority_config *p = &c->experience.priority;

    if (!c->experience.has_priority || p->beta == p->beta_to)
        return;
    if (p->over > 0)
        (void)printf("  importance weights: beta %g to %g over %.0f steps "
                     "(experience.priority.over)\n",
                     p->beta, p->beta_to, p->over);
    else if (p->over_episodes > 0)
        (void)printf("  importance weights: beta %g to %g over %.0f episodes "
                     "(experience.priority.over_episodes)\n",
                     p->beta, p->beta_to, p->over_episodes);
}

/* What --no-start leaves out: the names of agents, and of the environment's key. */
static const char *not_started(const struct run_config *c, struct arena *arena)
{
    const char *list = "";

    for (size_t i = 0; i < c->n_agents; i++)
        if (c->agents[i].command != NULL)
            list = arena_printf(arena, "%s%sagents.%s", list, *list != '\0' ? ", " : "",
                                c->agents[i].name);
    if (env_config_is_external(&c->env))
        list = arena_printf(arena, "%s%senv.%s", list, *list != '\0' ? ", " : "",
                            c->env.command != NULL ? "command" : "plugin");
    return list;
}

static void report_good(const struct cli *cli, const char *path,
                        const struct run_config *c, const struct trial *trial)
{
    const struct estimate *estimate = &trial->estimate;
    const struct run_length last = run_length_last(c);
    const int in_episodes = last.episodes > 0;
    const long long length = in_episodes ? last.episodes : last.env_steps;
    const int64_t steps = run_config_most_steps(c);
    char *warning = steps > 0 ? run_config_untrained(c, steps) : NULL;
    char *shortage = estimate_shortage(estimate, c, cli->runs_dir);
    char *both = warning != NULL && shortage != NULL
                     ? xasprintf("%s; %s", warning, shortage)
                     : NULL;
    struct arena arena = ARENA_ZERO;
    const char *algorithms = run_algorithm_names(c, ", ", &arena);
    const char *left_out = trial->no_start ? not_started(c, &arena) : "";
    char ends[64] = "until it is stopped";

    if (length > 0)
        (void)snprintf(ends, sizeof(ends), "%lld %s%s", length,
                       in_episodes ? "episode" : "step", length == 1 ? "" : "s");
    if (cli->json) {
        struct json j = {0};

        json_object(&j);
        json_put_str(&j, "config", path);
        json_put_bool(&j, "ok", 1);
        json_put_u64(&j, "agents", c->n_agents);
        json_put_str(&j, "algorithms", algorithms);
        json_put_known(&j, in_episodes ? "episodes" : "env_steps", length > 0,
                       (uint64_t)length);
        put_estimate(&j, estimate);
        json_put_str(&j, "warning",
                     both != NULL      ? both
                     : warning != NULL ? warning
                                       : shortage); /* NULL: null */
        if (trial->no_start)
            json_put_str(&j, "not_started", left_out);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s: ok: %zu agent%s, %s, %s\n", path, c->n_agents,
                     c->n_agents == 1 ? "" : "s", algorithms, ends);
        if (*left_out != '\0')
            (void)printf("  not started, and so not checked: %s\n", left_out);
        else
            print_estimate(estimate);
        print_schedule(c);
        if (warning != NULL)
            (void)fprintf(stderr, "%s: %s\n", path, warning);
        if (shortage != NULL)
            cli_warn(cli, path, shortage);
    }
    free(warning);
    free(shortage);
    free(both);
    arena_done(&arena);
}

/* Prints the message alone, so that the line begins with file:line, as editors expect. */
static void report_bad(const struct cli *cli, const char *path, const struct err *err)
{
    (void)fprintf(stderr, "%s\n", err->msg);
    if (cli->json) {
        struct json j = {0};

        json_object(&j);
        json_put_str(&j, "config", path);
        json_put_bool(&j, "ok", 0);
        json_put_str(&j, "error", err->msg);
        json_print(&j, stdout);
    }
}

struct place {
    const struct cli *cli;
    const char *path, *key;
};

static void warn_of_env(void *ctx, const char *line)
{
    const struct place *at = ctx;

    if (!at->cli->quiet)
        (void)fprintf(stderr, "%s: %s: warning: %s\n", at->path, at->key, line);
}

/* Plays a few steps of an external environment. ERR_CONFIG, with file and line; ERR_AGENT, too, if
 * its process was killed. */
static int check_env(const struct cli *cli, const char *path, const struct run_config *c,
                     struct err *err)
{
    struct place at = {cli, path, c->env.command != NULL ? "env.command" : "env.plugin"};
    const struct env_trial_listener listener = {warn_of_env, &at};
    struct env_verdict verdict;
    struct err why = {0};
    char text[256];
    int rc = env_trial(&c->env, c->run.seed, &listener, &verdict, &why);

    if (rc == ERR_INTERRUPTED)
        return err_pass(err, &why);
    if (rc < 0 && c->env.command != NULL)
        return yaml_fail_since(c->env.command, at.key, err, &why);
    if (rc < 0)
        return err_set_at(err, err_is_failure(rc) ? rc : ERR_CONFIG,
                          ERR_AT(.file = path, .key = at.key), "%s", why.msg);
    if (verdict.differs)
        warn_of_env(&at, env_verdict_text(&verdict, text, sizeof(text)));
    return 0;
}

static int read_config(struct run_config *ret, const char *path,
                       const struct config_options *options, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (strcmp(path, "-") != 0)
        return run_config_read(ret, path, options, err);
    *ret = (struct run_config){0};
    text = xmalloc(STDIN_MAX_BYTES);
    len = fread(text, 1, STDIN_MAX_BYTES, stdin);
    rc = ferror(stdin) ? err_errno(err, "standard input")
                       : run_config_parse(ret, text, len, path, options, err);
    free(text);
    return rc;
}

/* Checks the changes that it has for later steps. */
static int check_plan(const struct run_config *c, struct err *err)
{
    struct change_plan plan = {0};
    struct run_config wanted = {0};
    const int rc = change_plan_from_config(&plan, c, &wanted, err);

    if (rc == 0)
        run_config_done(&wanted);
    change_plan_done(&plan);
    return rc;
}

/* Checks a configuration and the files that it names. path "-": standard input. */
static int check(const struct cli *cli, const char *path,
                 const struct config_options *options)
{
    const struct trial *trial = options->try_ctx;
    struct policies *policies = NULL;
    struct run_config c;
    struct err err = {0};
    int rc = read_config(&c, path, options, &err);

    if (rc == 0)
        rc = policies_find(&policies, &c, options->policy_ctx, &err);
    if (rc == 0 && !trial->no_start)
        rc = trial_policies(&c, policies, &err);
    if (rc == 0)
        rc = check_plan(&c, &err);
    if (rc == 0 && !trial->no_start)
        rc = check_env(cli, path, &c, &err);
    if (rc == 0 && c.has_cluster && c.cluster.launcher == LAUNCHER_SLURM)
        rc = slurm_check_job(&c.cluster, &err) < 0 ? err_wrap(&err, "%s", path) : 0;
    if (rc < 0)
        report_bad(cli, path, &err);
    else
        report_good(cli, path, &c, trial);
    policies_free(policies);
    run_config_done(&c);
    return rc < 0 ? cli_code(CLI_USAGE, &err) : CLI_DONE;
}

/* Of two files' codes: an interrupt ends the command, and a wrong file says more than one that
 * could not be checked. */
static int worse(int a, int b)
{
    if (a == CLI_STOPPED || b == CLI_STOPPED)
        return CLI_STOPPED;
    return a > b ? a : b;
}

struct options {
    struct cli_texts sets;
    int no_start;
};

static int run_check(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct trial trial;
    struct policy_search search = cli_policy_search(cli);
    struct config_options options = train_config_options(cli, &o->sets, &search, &trial);
    int code = CLI_DONE;

    if (argc == 0)
        return cli_usage(cli, "expected at least one configuration file");
    options.no_start = search.no_start = o->no_start;
    for (int i = 0; i < argc && code != CLI_STOPPED; i++) {
        trial = (struct trial){.runs_dir = cli->runs_dir, .no_start = o->no_start};
        code = worse(code, check(cli, argv[i], &options));
    }
    return code;
}

static const struct cli_option options[] = {
    {"set", "KEY=VALUE", "check with this value (repeatable)",
     CLI_TEXTS(struct options, sets)},
    {"no-start", NULL,
     "start no program that CONFIG names, and say which were left\n"
     "out: agents, an environment",
     CLI_FLAG(struct options, no_start)},
    {0}};

const struct command cmd_check = {
    .name = "check",
    .arguments = "CONFIG... [options]",
    .summary = "Check configurations without starting a run",
    .options = options,
    CLI_INTO(struct options, {0}),
    .help = "\nCONFIG - is standard input.\n"
            "\nexample: brood check configs/*.yaml --set run.seed=7\n"
            "\nEvery key of a configuration, its default and what it is for:\n"
            "\n",
    .more_help = run_config_print_keys,
    .run = run_check,
};
