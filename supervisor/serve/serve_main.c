/* brood-serve: the server that `brood serve` executes. */
#include "common/io/beneath.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/serve/serve.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct options {
    const char *step, *run; /* run: its path */
    const char *name;
    struct serve serve;
    int trust; /* although the run is another user's */
};

static int prints_json;

static void print_address(const struct serve *s)
{
    char url[64];
    struct json j = {0};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", s->http.port);
    if (prints_json) {
        json_object(&j);
        json_put_str(&j, "url", url);
        json_put_str(&j, "token", s->http.guard.token);
        json_put_str(&j, "socket", s->socket);
        json_put_i64(&j, "port", s->http.port);
        json_put_i64(&j, "pid", getpid());
        json_print(&j, stdout);
    } else {
        (void)printf("%s\nAuthorization: Bearer %s\n", url, s->http.guard.token);
        if (s->socket != NULL)
            (void)printf("%s\n", s->socket);
    }
    (void)fflush(stdout);
}

static void on_skipped(void *ctx, const char *line)
{
    (void)ctx;
    (void)fprintf(stderr, "brood serve: %s\n", line);
}

/* A process that dies is replaced, however often: the server has the episodes, and goes on. */
static void restart_always(struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        c->agents[i].restart = (struct restart_config){.policy = RESTART_PERMANENT,
                                                       .max_restarts = 1000000,
                                                       .within_s = 1,
                                                       .delay_s = 0.01,
                                                       .max_delay_s = 1,
                                                       .on_give_up = GIVE_UP_STOP};
}

static int serve_config(struct options *o, struct run_config *config, struct err *err)
{
    char *checkpoints = xasprintf("%s/checkpoints", o->run);
    struct binaries binaries;
    struct weights *weights = NULL;
    struct policies *policies = NULL;
    struct players *players = NULL;
    struct players_args args = {.config = config, .agent_exe_fd = -1};
    int rc = binaries_find(&binaries, err);

    restart_always(config);
    if (rc == 0)
        rc = args.agent_exe_fd = binaries_open_agent(&binaries, err);
    if (rc >= 0)
        rc = weights_load(&weights, checkpoints, o->step, on_skipped, NULL, err);
    if (rc == 0)
        rc = policies_load(&policies, config, o->run, err);
    if (rc == 0) {
        args.weights = weights;
        args.policies = policies;
        o->serve.acts.config = config;
        o->serve.acts.run = o->name;
        o->serve.acts.step = weights_step(weights);
        rc = players_open(&players, &args, err);
    }
    if (rc == 0) {
        o->serve.acts.players = players;
        rc = serve_run(&o->serve, print_address, err);
    }
    players_close(players);
    acts_free(o->serve.answering);
    policies_free(policies);
    weights_free(weights);
    if (args.agent_exe_fd >= 0)
        (void)close(args.agent_exe_fd);
    free(checkpoints);
    return rc;
}

/* The directory that is held is the one that is checked. */
static int hold_run(const struct options *o, struct err *err)
{
    int rc = beneath_hold(o->run, err);

    if (rc == 0 && !o->trust && (rc = run_dir_check_trust(o->run, err)) < 0)
        beneath_release(o->run);
    return rc;
}

static int serve_run_dir(struct options *o, struct err *err)
{
    const struct config_options co = {.env_names = env_agent_names};
    struct run_config config;
    char *file, *name;
    int rc = hold_run(o, err);

    if (rc < 0)
        return rc;
    file = xasprintf("%s/config.yaml", o->run);
    o->name = name = run_dir_name_of(o->run);
    rc = run_config_read(&config, file, &co, err);
    if (rc == 0) {
        rc = serve_config(o, &config, err);
        run_config_done(&config);
    }
    beneath_release(o->run);
    free(file);
    free(name);
    return rc;
}

/* Called by `brood serve` only, which has checked the options. */
int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'},
                                            {"socket", required_argument, NULL, 's'},
                                            {"step", required_argument, NULL, 't'},
                                            {"seed", required_argument, NULL, 'e'},
                                            {"episodes", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"trust", no_argument, NULL, 'T'},
                                            {0}};
    struct options o = {0};
    struct err err = {0};
    int c;

    log_init("brood-serve", log_level_wanted(LOG_LEVEL_INFO), STDERR_FILENO);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            o.serve.http.port = atoi(optarg);
            break;
        case 's':
            o.serve.socket = optarg;
            break;
        case 't':
            o.step = optarg;
            break;
        case 'e':
            o.serve.acts.seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            o.serve.acts.max_episodes = strtoul(optarg, NULL, 10);
            break;
        case 'j':
            prints_json = 1;
            break;
        case 'T':
            o.trust = 1;
            break;
        default:
            return 2;
        }
    }
    if (optind >= argc)
        return 2;
    o.run = argv[optind];
    if (serve_run_dir(&o, &err) == 0)
        return 0;
    (void)fprintf(stderr, "brood serve: %s\n", err.msg);
    return 1;
}
