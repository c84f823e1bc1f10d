/* `brood resume`: resumes a run from one of its checkpoints; also for `run` and `fork`, and for the
 * keeper after a supervisor has died. */
#include "common/io/tree.h"
#include "common/log/log.h"
#include "supervisor/ask/describe.h"
#include "supervisor/begin/resume_config.h"
#include "supervisor/cli/train.h"
#include "supervisor/env/env.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/save/retention.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Refuses a changed configuration or other numerics; with --anyway only reports it, unless this
 * is not known: after a failure of the machine or an interrupt. Returns 0 to continue. */
static int refuse_or_report(const struct cli *cli, struct training_args *args, int rc,
                            const struct err *err)
{
    int code;

    if (rc == 0)
        return 0;
    code = cli_fail(cli, CLI_USAGE, err);
    if (code != CLI_USAGE)
        return code;
    if (args->differs.code == 0)
        args->differs = *err;
    return args->anyway ? 0 : CLI_USAGE;
}

static int fail(const struct cli *cli, const struct err *err)
{
    return cli_fail(cli, err->code == ERR_NOT_FOUND ? CLI_NOT_THERE : CLI_FAILED, err);
}

/* What the configuration is resumed from; run_config_done(saved) afterwards. saved: NULL, or
 * the checkpoint's configuration. */
static struct resume_from resume_from(const struct resume_options *o,
                                      const struct training_args *args,
                                      const struct run_config *saved,
                                      const struct run_config *wanted)
{
    struct resume_from from = {.saved = saved,
                               .step = resume_progress(args->resume)->env_steps,
                               .wanted = wanted,
                               .journal =
                                   change_source_of(run_dir_file(args->dir, "journal"))};

    for (size_t i = 0; i < o->sets.n; i++)
        from.is_length_given |= run_length_is_assigned(o->sets.text[i]);
    return from;
}

static void print_events(const struct training_args *args, const char *why)
{
    const struct rollout_progress *at = resume_progress(args->resume);
    struct training_result result = {.end = TRAINING_DONE,
                                     .env_steps = at->env_steps,
                                     .episodes = at->episodes,
                                     .checkpoint_step = (int64_t)at->env_steps};
    struct run_record record;

    run_record_read(&record, run_dir_path(args->dir));
    result.team_return_mean = record.status.team_return_mean;
    result.total_seconds = record.status.total_s;
    result.total_restarts = record.status.total_restarts;
    (void)snprintf(result.done_why, sizeof(result.done_why), "%s",
                   why != NULL ? why : "");
    run_record_done(&record);
    train_print_done(args, &result);
}

/* Says that the run is done, and what continues it. */
static void print_done(const struct training_args *args, const char *why,
                       int is_length_reached)
{
    const char *name = run_dir_name(args->dir);
    const unsigned long long steps = resume_progress(args->resume)->env_steps;

    if (why != NULL)
        (void)fprintf(stderr, "%s: done, stopped at step %llu: %s; ", name, steps, why);
    else
        (void)fprintf(stderr, "%s: done, %llu steps; ", name, steps);
    if (!tree_exists(run_dir_file(args->dir, "experience")))
        (void)fprintf(stderr,
                      "`brood run CONFIG --init-from %s` begins a new run with its "
                      "weights\n",
                      name);
    else if (why == NULL)
        (void)fprintf(stderr, "--set run.env_steps=N extends it\n");
    else
        (void)fprintf(stderr, "--set run.stop_when=none%s continues it\n",
                      is_length_reached ? " --set run.env_steps=N" : "");
}

/* Reports a finished run. If the supervisor ended before doing so, first removes its log and
 * older checkpoints, and records that it is done. why: it ended before its length; or NULL. */
static int report_done(const struct cli *cli, const struct resume_options *o,
                       const struct training_args *args, const struct run_config *wanted,
                       const char *why, int is_length_reached)
{
    const char *log = run_dir_file(args->dir, "experience");
    const char *name = run_dir_name(args->dir);
    const enum keep_log keep = wanted->experience.keep;
    struct retention keep_which = retention_of(wanted, run_dir_began_unix(args->dir));
    struct verdict verdict;
    uint64_t bytes;
    struct err err = {0};
    char line[256];
    int rc = o->from == NULL
                 ? retention_drop_log(log, keep, RETENTION_AUTO_BYTES, &bytes, &err)
                 : 0;

    if (rc < 0)
        log_warn("%s", err.msg);
    if (rc == 1) {
        retention_describe_log(name, keep, bytes, line, sizeof(line));
        (void)fprintf(stderr, "%s\n", line);
    }
    rc = resume_verdict(args->resume, wanted, &verdict, &err);
    keep_which.best = verdict.kept.step;
    if (rc < 0)
        log_warn("%s: its best checkpoint is not known, so that all stay: %s", name,
                 err.msg);
    else if (o->from == NULL &&
             retention_drop_old(&keep_which, run_dir_file(args->dir, "checkpoints"),
                                &err) < 0)
        log_warn("%s", err.msg);
    if (run_record_mark_done(run_dir_path(args->dir), resume_progress(args->resume), why,
                             &err) < 0)
        log_warn("%s", err.msg);
    print_done(args, why, is_length_reached);
    if (cli->json) {
        struct training_args done = *args;

        done.wanted = wanted;
        print_events(&done, why);
    }
    return CLI_DONE;
}

static int refuse_length(const struct cli *cli, const struct training_args *args,
                         const struct run_config *wanted)
{
    const struct rollout_progress *at = resume_progress(args->resume);
    const int by_steps = wanted->run.env_steps > 0;
    struct err err = {0};

    (void)err_set(&err, ERR_CONFIG,
                  "%s is to end at %lld %s and is at %llu: --set run.env_steps or "
                  "run.episodes to more",
                  run_dir_name(args->dir),
                  (long long)(by_steps ? wanted->run.env_steps : wanted->run.episodes),
                  by_steps ? "steps" : "episodes",
                  (unsigned long long)(by_steps ? at->env_steps : at->episodes));
    return cli_fail(cli, CLI_USAGE, &err);
}

/* Refuses to make a run longer that its evaluations have ended. */
static int refuse_longer(const struct cli *cli, const struct training_args *args,
                         const char *why)
{
    struct err err = {0};

    (void)err_set(&err, ERR_CONFIG,
                  "%s has stopped at step %llu: %s; --set run.stop_when=none, too, "
                  "continues it",
                  run_dir_name(args->dir),
                  (unsigned long long)resume_progress(args->resume)->env_steps, why);
    return cli_fail(cli, CLI_USAGE, &err);
}

/* Refuses a changed configuration, or reports it, as find_config does. */
static int check_unchanged(const struct cli *cli, struct training_args *args,
                           const struct resume_from *from)
{
    struct resume_config same = {0};
    struct err err = {0};
    const int rc = resume_config_check(&same, from, &err);

    resume_config_done(&same);
    return refuse_or_report(cli, args, rc, &err);
}

enum { NOT_REACHED = -1 };

/* Returns the exit code if the checkpoint has reached the length in force there, or its
 * evaluation has ended the run, otherwise NOT_REACHED. With an unchanged length, the run is
 * done unless something is left to do at its last boundary, such as an interrupted
 * evaluation. A new length that the run has already passed is refused, because it would end
 * the run for good; so is any other change, which nothing would follow. */
static int check_length(const struct cli *cli, const struct resume_options *o,
                        struct training_args *args, const struct resume_from *from,
                        const struct err *unreadable)
{
    const struct rollout_progress *at = resume_progress(args->resume);
    struct run_length length = run_length_of(from->wanted);
    struct resume_config begin = {0};
    struct err err = *unreadable;
    char *why = resume_ended_why(args->resume, from->wanted);
    int code = NOT_REACHED, is_reached;

    if (from->saved != NULL && resume_config_make(&begin, from, &err) == 0)
        length = change_plan_length(&begin.plan, &begin.config, from->step);
    is_reached = run_length_is_reached(length, at->env_steps, at->episodes);
    if (!is_reached && why == NULL) {
        resume_config_done(&begin);
        return NOT_REACHED;
    }
    if (err.code < 0)
        code = cli_fail(cli, CLI_USAGE, &err);
    else if (begin.given.n > 0 && is_reached)
        code = refuse_length(cli, args, from->wanted);
    else if (begin.given.n > 0)
        code = refuse_longer(cli, args, why);
    else if (!at->is_midway)
        code = check_unchanged(cli, args, from);
    if (code == 0) {
        /* Lengths for later steps, which the run did not get to, were never in force. */
        char *left = change_plan_cancel_after(&begin.plan, from->step, 1);

        if (left != NULL && !cli->quiet)
            (void)fprintf(stderr, "%s ended before its length could change: %s\n",
                          run_dir_name(args->dir), left);
        free(left);
        code = report_done(cli, o, args, from->wanted, why, is_reached);
    }
    free(why);
    resume_config_done(&begin);
    return code;
}

/* Finds the configuration to resume with, and its planned changes: those of the
 * checkpoint or, with --anyway, those wanted now. */
static int find_config(const struct cli *cli, struct training_args *args,
                       const struct resume_from *from, const struct err *unreadable,
                       struct resume_config *ret)
{
    struct err err = *unreadable;
    const int rc =
        from->saved != NULL ? resume_config_check(ret, from, &err) : unreadable->code;
    int code = refuse_or_report(cli, args, rc, &err);

    if (code == 0 && rc < 0)
        resume_config_force(ret, from);
    args->config = &ret->config;
    args->wanted = &ret->wanted;
    args->plan = &ret->plan;
    args->given = &ret->given;
    args->cancelled = ret->cancelled;
    return code;
}

static int train_from(const struct cli *cli, struct training_args *args,
                      const struct resume_from *from, const struct err *unreadable)
{
    struct resume_config begin = {0};
    struct err err = {0};
    int code;

    if (retention_check_log(run_dir_file(args->dir, "experience"), &err,
                            "the run cannot continue; `brood run CONFIG --init-from %s` "
                            "begins anew with its weights",
                            run_dir_name(args->dir)) < 0)
        return fail(cli, &err);
    code = refuse_or_report(
        cli, args,
        resume_check_numerics(args->resume,
                              from->saved != NULL ? from->saved : from->wanted,
                              args->binaries->build_id, &err),
        &err);
    if (code == 0)
        code = refuse_or_report(cli, args, describe_check_same(from->wanted, &err), &err);
    if (code == 0)
        code = find_config(cli, args, from, unreadable, &begin);
    if (code == 0)
        code = train_watched(cli, args);
    resume_config_done(&begin);
    return code;
}

static int continue_run(const struct cli *cli, const struct resume_options *o,
                        struct training_args *args, const struct run_config *wanted)
{
    struct run_config saved;
    struct err unreadable = {0};
    const int rc = resume_saved_config(args->resume, env_agent_names, &wanted->env,
                                       &saved, &unreadable);
    const struct resume_from from = resume_from(o, args, rc == 0 ? &saved : NULL, wanted);
    int code = check_length(cli, o, args, &from, &unreadable);

    if (code == NOT_REACHED)
        code = train_from(cli, args, &from, &unreadable);
    if (rc == 0)
        run_config_done(&saved);
    return code;
}

static int with_config(const struct cli *cli, const struct resume_options *o,
                       struct training_args *args)
{
    const struct config_options co = {
        .set = o->sets.text, .n_set = o->sets.n, .env_names = env_agent_names};
    const char *checkpoints = run_dir_file(args->dir, "checkpoints");
    struct run_config config;
    struct policies *policies = NULL;
    struct resume *resume = NULL;
    struct err err = {0};
    int code;

    if (run_config_read(&config, run_dir_file(args->dir, "config.yaml"), &co, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    if (policies_load(&policies, &config, run_dir_path(args->dir), &err) < 0 ||
        resume_open(&resume, checkpoints, o->from, cli_skipped, (void *)(uintptr_t)cli,
                    &err) < 0) {
        code = fail(cli, &err);
    } else {
        args->resume = resume;
        args->policies = policies;
        code = continue_run(cli, o, args, &config);
    }
    resume_free(resume);
    policies_free(policies);
    run_config_done(&config);
    return code;
}

int resume_run(const struct cli *cli, const struct resume_options *o)
{
    struct training_args args = {.anyway = o->anyway,
                                 .rescue = o->rescue,
                                 .until = (uint64_t)o->until,
                                 .memory_limit_bytes = o->memory_limit_bytes};
    struct binaries bin;
    struct err err = {0};
    char *path = NULL;
    int code;

    args.binaries = &bin;
    if (binaries_find(&bin, &err) < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    if (run_dir_find(cli->runs_dir, o->run, &path, &err) < 0)
        return cli_fail(cli, CLI_NOT_THERE, &err);
    if (train_check_rescue(o->rescue, &err) < 0 ||
        (!o->trust && run_dir_check_trust(path, &err) < 0) ||
        run_dir_open(&args.dir, path, 1, &err) < 0)
        code = cli_fail(cli, CLI_USAGE, &err);
    else
        code = with_config(cli, o, &args);
    run_dir_free(args.dir);
    free(path);
    return code;
}

static int run_resume(struct cli *cli, void *values, int argc, char **argv)
{
    struct resume_options *o = values;
    struct keeper_task again;
    int code;

    o->run = argv[0];
    if (!cli_keep(cli, o->detach, &code))
        return code;
    if (keeper_resume_task(&again)) {
        /* The keeper has started this process after a supervisor died: resumes the keeper's
         * run. If the last supervisor already applied the command's --set and --from, they
         * are dropped: changes and checkpoints made since then count. */
        o->run = again.path;
        o->trust = 1; /* the command checked it before its first supervisor */
        if (again.committed) {
            o->sets.n = 0;
            o->from = NULL;
        }
    }
    return resume_run(cli, o);
}

static const struct cli_option options[] = {
    {"from", "STEP", "resume from this checkpoint and discard later ones",
     CLI_TEXT(struct resume_options, from)},
    {"set", "KEY=VALUE",
     "run.env_steps or run.episodes: extend the run;\n"
     "run.stop_when: which evaluations end it;\n"
     "checkpoint.keep_best: of which one the checkpoint is kept\n"
     "from now on; the best by the former metric is removed\n"
     "with the older ones;\n"
     "experience.keep: whether to keep the log at the end;\n"
     "cluster.*: on which machines it goes on;\n"
     "env.on_failure: whether failing episodes are skipped",
     CLI_TEXTS(struct resume_options, sets)},
    {"until", "STEP", "stop there, as `brood stop` would; `resume` continues",
     CLI_NUMBER(struct resume_options, until, 1, INT64_MAX)},
    {"memory-limit", "SIZE",
     "fail if all processes of the run together take more\n"
     "memory, such as 8G; a log on a tmpfs and parameters that\n"
     "agents share count for each agent that maps them",
     CLI_TAKE_TO(train_take_memory, struct resume_options, memory_limit_bytes)},
    {"detach", NULL,
     "return after the first round; the run continues in the\n"
     "background",
     CLI_FLAG(struct resume_options, detach)},
    {"anyway", NULL, "resume even if numerics or configuration have changed",
     CLI_FLAG(struct resume_options, anyway)},
    {"trust", NULL,
     "resume another user's run; programs that its\n"
     "configuration names are executed",
     CLI_FLAG(struct resume_options, trust)},
    {"rescue", "DIR",
     "if the run directory is deleted meanwhile, write the last\n"
     "checkpoint into a run in DIR",
     CLI_TEXT(struct resume_options, rescue)},
    {0}};

const struct command cmd_resume = {
    .name = "resume",
    .arguments = "[RUN] [options]",
    .one = "run",
    .summary = "Resume a run from its newest complete checkpoint, exactly",
    .options = options,
    CLI_INTO(struct resume_options, 0),
    .help = "\nRUN: a name under the runs directory or a path; default: the newest run.\n"
            "\nexample: brood resume simple_spread-1 --set run.env_steps=1000000\n",
    .takes = CLI_OVER,
    .run = run_resume,
};
