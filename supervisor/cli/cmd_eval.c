#include "supervisor/cli/cli.h"

#include "common/mem/xmalloc.h"
#include "common/text/number_text.h"
#include "common/text/plain_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/eval_play.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct eval_options {
    const char *checkpoint;
    const char *render;
    long long episodes, seed, copies;
    struct which {
        enum eval_pick pick;
        long long number;
    } episode; /* that is drawn */
    int stochastic;
    struct cli_texts sets; /* of the environment */
    int trust;             /* accept another user's directory */
};

struct report {
    const struct cli *cli;
    const struct eval_args *args;
    const char *run;
    const struct cli_texts *sets;
    const char *file;   /* of the picture; NULL: none */
    struct err failure; /* why the picture could not be drawn */
};

static int one_team(const struct env_spec *spec)
{
    for (size_t i = 1; i < spec->n_agents; i++) {
        if (env_team_of(spec, i) != 0)
            return 0;
    }
    return 1;
}

static void put_per_agent(struct json *j, const char *key, const struct env_spec *spec,
                          const double *values)
{
    json_put_object(j, key);
    for (size_t i = 0; i < spec->n_agents; i++)
        json_put_f64(j, spec->agents[i].name, values[i]);
    json_close(j);
}

static void print_json(const struct report *p, const struct env_spec *spec,
                       const struct evaluation_result *r)
{
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "run", p->run);
    json_put_u64(&j, "checkpoint_step", p->args->step);
    json_put_str(&j, "env", spec->id);
    if (p->sets->n > 0) {
        json_put_array(&j, "set");
        for (size_t i = 0; i < p->sets->n; i++)
            json_str(&j, p->sets->text[i]);
        json_close(&j);
    }
    json_put_str(&j, "rules", recording_rules(&p->args->config->env, spec));
    json_put_str(&j, "mode", p->args->mode == ACT_GREEDY ? "greedy" : "stochastic");
    json_put_u64(&j, "episodes", r->episodes);
    json_put_u64(&j, "seed", p->args->seed);
    put_per_agent(&j, "return_mean", spec, r->return_mean);
    put_per_agent(&j, "return_std", spec, r->return_std);
    put_per_agent(&j, "return_se", spec, r->return_se);
    json_put_object(&j, "teams");
    for (size_t i = 0; i < spec->n_agents; i++) {
        if (env_team_of(spec, i) != i)
            continue;
        json_put_f64(&j, spec->agents[i].team, env_team_mean(spec, i, r->return_mean));
    }
    json_close(&j);
    if (one_team(spec))
        json_put_f64(&j, "team_return_mean", env_team_mean(spec, 0, r->return_mean));
    json_put_f64(&j, "length_mean", r->length_mean);
    if (r->n_metrics > 0) {
        json_put_object(&j, "metrics");
        for (size_t i = 0; i < r->n_metrics; i++)
            json_put_f64(&j, r->metrics[i], r->metric_mean[i]);
        json_close(&j);
    }
    json_print(&j, stdout);
}

static void print_text(const struct report *p, const struct env_spec *spec,
                       const struct evaluation_result *r)
{
    const char *rules = recording_rules(&p->args->config->env, spec);
    char text[3][NUMBER_TEXT_BYTES];

    (void)printf("%s at step %llu: %llu %s episodes of %s", PLAIN_NAME(p->run),
                 (unsigned long long)p->args->step, (unsigned long long)r->episodes,
                 p->args->mode == ACT_GREEDY ? "greedy" : "stochastic", spec->id);
    if (rules != NULL)
        (void)printf(" (%s rules)", rules);
    for (size_t i = 0; i < p->sets->n; i++)
        (void)printf("%s%s", i == 0 ? " with " : ", ", PLAIN_NAME(p->sets->text[i]));
    (void)printf(", seed %llu\n", (unsigned long long)p->args->seed);
    (void)printf("  %-16s %10s %10s %10s\n", "agent", "return", "std", "se");
    for (size_t i = 0; i < spec->n_agents; i++)
        (void)printf("  %-16s %10s %10s %10s\n", spec->agents[i].name,
                     number_text(r->return_mean[i], 3, text[0]),
                     number_text(r->return_std[i], 3, text[1]),
                     number_text(r->return_se[i], 3, text[2]));
    for (size_t i = 0; i < spec->n_agents; i++) {
        if (env_team_of(spec, i) == i)
            (void)printf("  team %-11s %10s\n", spec->agents[i].team,
                         number_text(env_team_mean(spec, i, r->return_mean), 3, text[0]));
    }
    (void)printf("  episode length %.1f\n", r->length_mean);
    for (size_t i = 0; i < r->n_metrics; i++) {
        (void)printf(
            "  %-16s %10s\n", r->metrics[i],
            isnan(r->metric_mean[i]) ? "-" : number_text(r->metric_mean[i], 3, text[0]));
    }
}

static void on_result(struct eval_play *play, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct report *p = play->ctx;

    if (p->cli->json)
        print_json(p, spec, result);
    else
        print_text(p, spec, result);
}

static void on_recorded(struct eval_play *play, const struct env_spec *spec)
{
    static const char *const words[] = {[EVAL_PICK_NUMBER] = "",
                                        [EVAL_PICK_BEST] = ", the best,",
                                        [EVAL_PICK_WORST] = ", the worst,"};
    struct report *p = play->ctx;
    const struct episode *e = &play->recording.episode;
    const struct recording_source from = eval_play_source(play, p->run, spec);
    const char *file = p->file;

    if (recording_write(&play->recording, &from, file, &p->failure) == 0 && !p->cli->json)
        (void)printf("  episode %llu%s is drawn in %s\n", (unsigned long long)e->number,
                     words[play->pick], file);
    if (e->is_cut && !p->cli->quiet)
        (void)fprintf(stderr,
                      "brood eval: %s shows the first %zu steps of episode %llu\n", file,
                      e->n_frames - 1, (unsigned long long)e->number);
}

/* Agents that the run did not have get a policy of their team. */
static int add_agents(struct weights *w, const struct run_config *c, int resized,
                      struct err *err)
{
    int rc = 0;

    for (size_t i = 0; resized && i < c->n_agents && rc == 0; i++)
        rc = weights_add(w, c->agents[i].name, err);
    return rc;
}

/* step: of the checkpoint; NULL: the newest one. */
static int eval_in_dir(const struct cli *cli, const struct eval_options *o,
                       const char *path, const char *step,
                       const struct run_config *config)
{
    struct err err = {0};
    char *checkpoints = xasprintf("%s/checkpoints", path);
    char *name = run_dir_name_of(path);
    struct report report = {.cli = cli, .run = name, .sets = &o->sets, .file = o->render};
    struct eval_play play = {.path = path,
                             .run = {.config = config,
                                     .episodes = (uint64_t)o->episodes,
                                     .seed = (uint64_t)o->seed,
                                     .copies = (size_t)o->copies,
                                     .resized = o->sets.n > 0,
                                     .mode = o->stochastic ? ACT_SAMPLE : ACT_GREEDY},
                             .records = o->render != NULL,
                             .pick = o->episode.pick,
                             .recording = {.number = (uint64_t)o->episode.number},
                             .on_result = on_result,
                             .on_recorded = on_recorded,
                             .ctx = &report};
    int code = CLI_DONE;

    report.args = &play.run;
    if (o->render != NULL && eval_play_check(&play, o->render, &err) < 0)
        code = cli_fail(cli, CLI_USAGE, &err);
    else if (weights_load(&play.weights, checkpoints, step, cli_skipped,
                          (void *)(uintptr_t)cli, &err) < 0)
        code =
            cli_fail(cli, err.code == ERR_NOT_FOUND ? CLI_NOT_THERE : CLI_FAILED, &err);
    else if (add_agents(play.weights, config, o->sets.n > 0, &err) < 0)
        code = cli_fail(cli, CLI_NOT_THERE, &err);
    else if (eval_play(&play, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    else if (report.failure.code < 0)
        code = cli_fail(cli, CLI_FAILED, &report.failure);
    eval_play_done(&play);
    free(checkpoints);
    free(name);
    return code;
}

static int run_eval(struct cli *cli, void *values, int argc, char **argv)
{
    const struct eval_options *o = values;
    struct config_options co = {.env_names = env_agent_names};
    struct run_config config;
    struct err err = {0};
    char *path, *file, *run;
    const char *step = NULL;
    int code;

    for (size_t i = 0; i < o->sets.n; i++)
        if (strncmp(o->sets.text[i], "env.", 4) != 0)
            return cli_usage(cli,
                             "--set %.60s: expected a key of env, as "
                             "env.params.agents=5",
                             o->sets.text[i]);
    if ((o->episode.number > 0 || o->episode.pick != EVAL_PICK_NUMBER) &&
        o->render == NULL)
        return cli_usage(cli, "--episode is for --render FILE");
    if (o->episode.number >= o->episodes)
        return cli_usage(cli, "--episode %lld is none of 0 to %lld", o->episode.number,
                         o->episodes - 1);
    co.set = o->sets.text;
    co.n_set = o->sets.n;
    co.resized = o->sets.n > 0;
    run = argv[0] != NULL ? run_dir_split(argv[0], &step) : NULL;
    if (step != NULL && o->checkpoint != NULL) {
        free(run);
        return cli_usage(cli, "give RUN@STEP or --checkpoint, not both");
    }
    code = run_dir_find(cli->runs_dir, run, &path, &err);
    free(run);
    if (code < 0)
        return cli_fail(cli, CLI_NOT_THERE, &err);
    file = xasprintf("%s/config.yaml", path);
    if (!o->trust && run_dir_check_trust(path, &err) < 0) {
        code = cli_fail(cli, CLI_USAGE, &err);
    } else if (run_config_read(&config, file, &co, &err) < 0) {
        code = cli_fail(cli, CLI_FAILED, &err);
    } else {
        config.env.draws = o->render != NULL;
        code = eval_in_dir(cli, o, path, step != NULL ? step : o->checkpoint, &config);
        run_config_done(&config);
    }
    free(file);
    free(path);
    return code;
}

static int take_episode(const struct cli *cli, const char *text, void *member)
{
    struct which *which = member;

    *which = (struct which){0};
    if (strcmp(text, "best") == 0 || strcmp(text, "worst") == 0) {
        which->pick = *text == 'b' ? EVAL_PICK_BEST : EVAL_PICK_WORST;
        return 0;
    }
    if (!text_is_digits(text))
        return cli_usage(cli, "--episode %.60s: expected a number, best or worst", text);
    return cli_integer(cli, "--episode", text, 0, EVALUATION_MAX_EPISODES - 1,
                       &which->number);
}

static const struct cli_option options[] = {
    {"episodes", "N", "how many (100)",
     CLI_NUMBER(struct eval_options, episodes, 1, EVALUATION_MAX_EPISODES)},
    {"seed", "N", "of worlds and draws (0)",
     CLI_NUMBER(struct eval_options, seed, 0, INT64_MAX)},
    {"checkpoint", "STEP", "instead of the newest; or best (checkpoint.keep_best)",
     CLI_TEXT(struct eval_options, checkpoint)},
    {"copies", "N", "played side by side; the result does not depend on it",
     CLI_NUMBER(struct eval_options, copies, 1, 65536)},
    {"stochastic", NULL, "sample from the policies instead",
     CLI_FLAG(struct eval_options, stochastic)},
    {"set", "env.KEY=VALUE",
     "in another environment: env.params.agents=5 gives\n"
     "further agents the policy of their team (env.observe:\n"
     "entities)",
     CLI_TEXTS(struct eval_options, sets)},
    {"render", "FILE",
     "draw an episode: .gif moves, so do .mp4 and .webm (with\n"
     "ffmpeg), .svg is one page, .jsonl is data",
     CLI_TEXT(struct eval_options, render)},
    {"episode", "K",
     "which one is drawn (0): its number, or the best or the worst\n"
     "by the first team's return",
     CLI_TAKE_TO(take_episode, struct eval_options, episode)},
    {"trust", NULL,
     "although the run is another user's: what its configuration\n"
     "names is executed",
     CLI_FLAG(struct eval_options, trust)},
    {0}};

const struct command cmd_eval = {
    .name = "eval",
    .arguments = "[RUN[@STEP]] [options]",
    .one = "run",
    .summary = "Play episodes with a run's greedy policies",
    .options = options,
    CLI_INTO(struct eval_options, .episodes = 100),
    .help = "\nexample: brood eval simple_spread-1 --episodes 500\n",
    .run = run_eval,
};
