#include "common/err/err.h"
#include "common/io/beneath.h"
#include "common/io/copy_file.h"
#include "common/io/tree.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/ask/describe.h"
#include "supervisor/begin/trial.h"
#include "supervisor/cli/jobs.h"
#include "supervisor/cli/seeds.h"
#include "supervisor/cli/train.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/signals.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/save/checkpoint_format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 20 }; /* to copy the newest checkpoint of a live run */

struct run_options {
    const char *config_path;
    const char *name;
    const char *init_from;
    struct first_variables variables; /* with init_from: of the agents, as far as known */
    const char *rescue;
    struct cli_texts sets; /* of --set */
    struct seeds seeds;
    int is_series;              /* --seeds was given */
    int has_seed;               /* --seed was given */
    long long jobs;             /* --jobs: how many runs of --seeds at a time */
    long long until;            /* 0: no such step */
    int64_t memory_limit_bytes; /* 0: none */
    const char *memory_limit;   /* as it was given */
    int force, detach;
    const struct keeper_task *again; /* NULL: not restarted by the keeper */
    char *path; /* of the series' run that was trained last; NULL: none yet; free() */
};

/* ---- one run ---- */

/* Reports wrong usage, or that the disk has no space for the run's directory. */
static int fail_to_begin(const struct cli *cli, struct err *err)
{
    const int is_full = err->code == -ENOSPC || err->code == -EDQUOT;

    if (is_full)
        (void)err_add(err, "free some space: `brood runs` shows what each run takes, and "
                           "`brood rm RUN` removes one");
    return cli_fail(cli, is_full ? CLI_FAILED : CLI_USAGE, err);
}

static int train_in_new_dir(const struct cli *cli, const char *name, int force,
                            struct training_args *args)
{
    const struct run_config *config = args->config;
    struct binaries bin;
    struct err err = {0};
    int code, rc;

    if (binaries_find(&bin, &err) < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    args->binaries = &bin;
    if (stop_signal_is_pending()) {
        (void)err_set(&err, ERR_INTERRUPTED, "interrupted before the run began");
        return cli_fail(cli, CLI_STOPPED, &err);
    }
    if (run_dir_refuse_within(cli->runs_dir, name,
                              args->init != NULL ? weights_dir(args->init) : NULL,
                              &err) < 0 ||
        policies_refuse_within(args->policies, cli->runs_dir, name, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    if (run_dir_create(&args->dir, cli->runs_dir, name, config->run.name, force,
                       (mode_t)config->run.mode, &err) < 0)
        return fail_to_begin(cli, &err);
    rc = run_dir_write_config(args->dir, args->wanted != NULL ? args->wanted : config,
                              &err);
    if (rc == 0)
        rc = policies_keep(args->policies, args->dir, &err);
    if (rc == 0)
        rc = run_dir_write_provenance(args->dir, cli->argc, cli->argv, bin.build_id,
                                      config->run.numerics, &err);
    if (rc < 0) {
        run_dir_discard(args->dir);
        (void)fail_to_begin(cli, &err);
        return CLI_FAILED;
    }
    code = train_watched(cli, args);
    run_dir_free(args->dir);
    return code;
}

/* Finds everything that the configuration names before anything is created or
 * replaced. */
static int train_with_policies(const struct cli *cli, const struct run_config *config,
                               const char *name, const struct run_options *o,
                               const struct weights *init)
{
    const struct policy_search search = cli_policy_search(cli);
    struct policies *policies = NULL;
    struct training_args args = {.config = config,
                                 .init = init,
                                 .rescue = o->rescue,
                                 .until = (uint64_t)o->until,
                                 .memory_limit_bytes = o->memory_limit_bytes};
    struct change_plan plan = {0};
    struct run_config wanted = {0};
    struct err err = {0};
    int code;

    if (policies_find(&policies, config, &search, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    if (trial_policies(config, policies, &err) < 0 ||
        (init != NULL &&
         first_weights_check(config, policies, init, &o->variables, &err) < 0)) {
        policies_free(policies);
        return cli_fail(cli, CLI_USAGE, &err);
    }
    args.policies = policies;
    if (change_plan_from_config(&plan, config, &wanted, &err) < 0) {
        code = cli_fail(cli, CLI_USAGE, &err);
    } else {
        args.plan = &plan;
        args.wanted = &wanted;
        code = train_in_new_dir(cli, name, o->force || o->again != NULL, &args);
    }
    run_config_done(&wanted);
    change_plan_done(&plan);
    policies_free(policies);
    return code;
}

/* ---- options ---- */

static int take_seeds(const struct cli *cli, const char *text, void *to)
{
    struct run_options *o = to;

    o->is_series = 1;
    return seeds_take(cli, text, &o->seeds);
}

static int take_seed(const struct cli *cli, const char *text, void *to)
{
    struct run_options *o = to;
    long long seed;

    if (cli_integer(cli, "--seed", text, 0, INT64_MAX, &seed) != 0)
        return CLI_USAGE;
    if (!o->is_series)
        o->seeds.seed[0] = (uint64_t)seed;
    o->seeds.n += !o->is_series && !o->has_seed;
    o->has_seed = 1;
    return 0;
}

static int take_memory(const struct cli *cli, const char *text, void *to)
{
    struct run_options *o = to;

    o->memory_limit = text;
    return train_take_memory(cli, text, &o->memory_limit_bytes);
}

/* The step of a run's newest checkpoint; -1: there is none. */
static long long newest_checkpoint(const char *path)
{
    struct run_record record;
    long long ret;

    run_record_read(&record, path);
    ret = record.status.checkpoint_step;
    run_record_done(&record);
    return ret;
}

/* Trains one run; without --name it gets the configuration's name and a number. */
static int train_seed(const struct cli *cli, struct run_options *o, const uint64_t *seed,
                      const char *suffix, const struct weights *init)
{
    struct trial trial = {.runs_dir = cli->runs_dir,
                          .variables = init != NULL ? &o->variables : NULL};
    struct policy_search search = cli_policy_search(cli);
    struct config_options co = train_config_options(cli, &o->sets, &search, &trial);
    struct run_config config;
    struct err err = {0};
    char seed_set[64], *shortage, *name = NULL;
    int code;

    if (o->again != NULL && o->again->committed) {
        o->path = xstrdup(o->again->path);
        return resume_run(
            cli, &(struct resume_options){.run = o->again->path,
                                          .trust = 1, /* this command created it */
                                          .rescue = o->rescue,
                                          .until = o->until,
                                          .memory_limit_bytes = o->memory_limit_bytes});
    }
    if (seed != NULL) {
        (void)snprintf(seed_set, sizeof(seed_set), "run.seed=%llu",
                       (unsigned long long)*seed);
        o->sets.text[co.n_set++] = seed_set;
    }
    if (run_config_read(&config, o->config_path, &co, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    shortage = estimate_shortage(&trial.estimate, &config, cli->runs_dir);
    if (shortage != NULL)
        cli_warn(cli, o->config_path, shortage);
    free(shortage);
    if (o->again != NULL)
        name = run_dir_name_of(o->again->path);
    else if (o->name != NULL || *suffix != '\0')
        name = xasprintf("%s%s", o->name != NULL ? o->name : config.run.name, suffix);
    free(o->path);
    o->path = name != NULL ? xasprintf("%s/%s", cli->runs_dir, name) : NULL;
    code = train_with_policies(cli, &config, name, o, init);
    free(name);
    run_config_done(&config);
    return code;
}

/* Whether a run ended with that exit code because it had come to the step of --until. */
static int has_come_to(const struct run_options *o, const char *path, int code)
{
    return o->until != 0 && code == CLI_STOPPED && newest_checkpoint(path) >= o->until;
}

/* Trains one run per seed, named NAME-s<seed>; stops after the first that fails, or that is
 * stopped before it comes to the step of --until. */
static int train_all(struct cli *cli, struct run_options *o, const struct weights *init)
{
    int code = CLI_DONE, meant_code = CLI_DONE;

    if (!o->is_series)
        return train_seed(cli, o, o->seeds.n > 0 ? &o->seeds.seed[0] : NULL, "", init);
    cli->place = o->again != NULL ? o->again->place : 0;
    for (; cli->place < o->seeds.n && code == CLI_DONE; cli->place++) {
        const uint64_t *seed = &o->seeds.seed[cli->place];
        char suffix[32];

        (void)snprintf(suffix, sizeof(suffix), "-s%llu", (unsigned long long)*seed);
        code = train_seed(cli, o, seed, suffix, init);
        o->again = NULL;
        if (o->path != NULL && has_come_to(o, o->path, code)) {
            meant_code = code;
            code = CLI_DONE;
        }
    }
    return code != CLI_DONE ? code : meant_code;
}

/* ---- the copy of a checkpoint with which all runs of a series begin ----
 *
 * They begin at different times (--seeds --jobs --init-from), and the run that it is of, which may
 * be live, may remove it meanwhile. The copy is a hidden folder of the runs directory,
 * RUNS/.init-<random>, by reference where the disk can. The programs of the series find its name
 * in their environment. It is removed when the series is over; what a kill has left is removed by
 * the next series: whoever uses a copy holds a lock of it.
 */

#define INIT_COPY_VARIABLE "BROOD_INIT_COPY"
#define PREFIX             ".init-"
struct init_copy {
    char *path; /* NULL: there is none */
    int fd;     /* holds the lock */
};

/* Opens the folder and locks it. -1 with errno; EWOULDBLOCK: somebody else has it; ENOENT: it is
 * gone. */
static int lock(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat own, there;
    int why;

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &own) < 0 ||
        lstat(path, &there) < 0)
        why = errno;
    else if (own.st_ino != there.st_ino || own.st_dev != there.st_dev)
        why = ENOENT;
    else
        return fd;
    (void)close(fd);
    errno = why;
    return -1;
}

/* Whether the held folder is the locked one, belongs to this user and has nothing but
 * checkpoints, as a copy has: whoever may rename in the runs directory can give any folder of
 * this user the name of a copy. */
static int is_copy(const char *path, int locked)
{
    DIR *d = beneath_opendir(path);
    struct stat held, own;
    struct dirent *e;
    int yes = d != NULL && beneath_held(path, &held) == 0 && fstat(locked, &own) == 0 &&
              held.st_ino == own.st_ino && held.st_dev == own.st_dev &&
              own.st_uid == geteuid();

    while (yes && (e = beneath_readdir(d)) != NULL)
        yes = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
              text_is_digits(e->d_name);
    yes = yes && errno == 0;
    if (d != NULL)
        (void)closedir(d);
    return yes;
}

/* Removes the copy, which is locked by fd; closes fd. Empties the folder by its descriptor: its
 * name may lead elsewhere at any time. */
static void remove_copy(const char *path, int fd)
{
    if (beneath_hold(path, NULL) == 0) {
        if (is_copy(path, fd) && tree_empty(path, NULL, NULL) == 0)
            (void)rmdir(path);
        beneath_release(path);
    }
    (void)close(fd);
}

static void remove_left(const char *runs_dir)
{
    DIR *d = opendir(runs_dir);

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char *path;
        int fd;

        if (text_after(e->d_name, PREFIX) == NULL)
            continue;
        path = xasprintf("%s/%s", runs_dir, e->d_name);
        fd = lock(path);
        if (fd >= 0)
            remove_copy(path, fd);
        free(path);
    }
    if (d != NULL)
        (void)closedir(d);
}

/* Stores the folder's path only when it was made: another one is not this series'. */
static int make_folder(struct init_copy *c, const char *runs_dir, struct err *err)
{
    uint64_t random = 0;
    char *path;
    int rc = tree_make(runs_dir, err);

    (void)getrandom(&random, sizeof(random), 0);
    path = xasprintf("%s/" PREFIX "%016" PRIx64, runs_dir, random);
    if (rc == 0 && mkdir(path, 0700) < 0)
        rc = err_errno(err, "%s", path);
    if (rc < 0) {
        free(path);
        return rc;
    }
    c->path = path;
    c->fd = lock(path);
    if (c->fd >= 0)
        return 0;
    return errno == EWOULDBLOCK || errno == ENOENT
               ? err_set(err, -ESTALE, "%s: another series removes it", path)
               : err_errno(err, "%s: cannot lock it", path);
}

/* All-zero is fine. */
static void init_copy_done(struct init_copy *c)
{
    if (c->path == NULL)
        return;
    (void)unsetenv(INIT_COPY_VARIABLE);
    if (c->fd >= 0)
        remove_copy(c->path, c->fd);
    free(c->path);
    *c = (struct init_copy){0};
}

/* checkpoints: the folder of that run. -ESTALE: the checkpoint was removed meanwhile. */
static int init_copy_make(struct init_copy *ret, const char *runs_dir,
                          const char *checkpoints, uint64_t step, struct err *err)
{
    char *from = checkpoint_path(checkpoints, "", step), *to = NULL;
    int rc;

    *ret = (struct init_copy){.fd = -1};
    remove_left(runs_dir);
    rc = make_folder(ret, runs_dir, err);
    if (rc == 0) {
        to = checkpoint_path(ret->path, "", step);
        rc = copy_tree(from, to, err);
    }
    if (!tree_exists(from)) /* some of it may have been gone already */
        rc = err_set(err, -ESTALE, "%s was removed meanwhile", from);
    if (rc < 0)
        init_copy_done(ret);
    else
        (void)setenv(INIT_COPY_VARIABLE, ret->path, 1);
    free(from);
    free(to);
    return rc;
}

/* In a program of the series: the folder that holds the checkpoint; NULL: there is none, or no
 * more. */
static const char *init_copy_given(void)
{
    const char *path = getenv(INIT_COPY_VARIABLE);

    return path != NULL && *path != '\0' && tree_exists(path) ? path : NULL;
}

/* ---- several seeds ---- */

/* Makes the names of the runs, NAME-s1 and so on: o->seeds.n of them. Refuses names that
 * exist already, before the first run begins. */
static int name_series(const struct cli *cli, const struct run_options *o, char **ret,
                       struct err *err)
{
    const struct config_options co = {.set = o->sets.text,
                                      .n_set = o->sets.n,
                                      .env_names = env_agent_names,
                                      .describe = describe_program,
                                      .dropped = cli_not_yet,
                                      .extends = 1};
    struct run_config config = {0};
    /* a wrong one is told once */
    int rc = run_config_read(&config, o->config_path, &co, err);

    for (size_t i = 0; rc == 0 && i < o->seeds.n; i++) {
        ret[i] = xasprintf("%s-s%llu", o->name != NULL ? o->name : config.run.name,
                           (unsigned long long)o->seeds.seed[i]);
        rc = run_dir_check_new(cli->runs_dir, ret[i], o->force, err);
    }
    run_config_done(&config);
    return rc;
}

/* The command line of one run of the series. */
static struct job make_job(const struct cli *cli, const struct run_options *o, size_t i,
                           const char *name, struct arena *arena)
{
    struct words w = {.arena = arena};

    words_add(&w, "brood", "run", "--runs-dir", cli->runs_dir, "--name", name, "--seed",
              arena_printf(arena, "%llu", (unsigned long long)o->seeds.seed[i]), NULL);
    for (size_t k = 0; k < o->sets.n; k++)
        words_add(&w, "--set", o->sets.text[k], NULL);
    if (o->init_from != NULL)
        words_add(&w, "--init-from", o->init_from, NULL);
    if (o->rescue != NULL)
        words_add(&w, "--rescue", o->rescue, NULL);
    if (o->until > 0)
        words_add(&w, "--until", arena_printf(arena, "%lld", o->until), NULL);
    if (o->memory_limit != NULL)
        words_add(&w, "--memory-limit", o->memory_limit, NULL);
    if (o->force)
        words_add(&w, "--force", NULL);
    if (cli->json)
        words_add(&w, "--json", NULL);
    if (cli->quiet)
        words_add(&w, "--quiet", NULL);
    words_add(&w, "--", o->config_path, NULL);
    return (struct job){.run = name, .argv = words_argv(&w)};
}

struct series {
    const struct cli *cli;
    const struct run_options *o;
    char *const *names;
};

static int is_meant(void *ctx, size_t job, int code)
{
    const struct series *s = ctx;
    char *path = xasprintf("%s/%s", s->cli->runs_dir, s->names[job]);
    const int ret = has_come_to(s->o, path, code);

    free(path);
    return ret;
}

/* Names the checkpoint that the whole series begins with, as PATH@STEP, and keeps a copy of it:
 * its runs begin at different times. */
static int fix_init_from(const struct cli *cli, const char *text, const char **ret,
                         struct init_copy *copy, struct arena *arena, struct err *err)
{
    int rc = -ESTALE;

    for (int i = 0; i < MAX_TRIES && rc == -ESTALE; i++) {
        char *dir = NULL;
        uint64_t step = 0;

        rc = run_dir_find_checkpoint(cli->runs_dir, text, &dir, &step, cli_skipped,
                                     (void *)(uintptr_t)cli, err);
        if (rc == 0) { /* of RUN/checkpoints */
            *ret = arena_printf(arena, "%.*s@%llu", (int)(strrchr(dir, '/') - dir), dir,
                                (unsigned long long)step);
            rc = init_copy_make(copy, cli->runs_dir, dir, step, err);
        }
        free(dir);
    }
    return rc;
}

static int train_at_once(const struct cli *cli, const struct run_options *o,
                         char *const *names)
{
    struct series series = {cli, o, names};
    struct job *jobs;
    struct arena arena = ARENA_ZERO;
    struct run_options fixed = *o;
    struct init_copy copy = {0};
    struct err err = {0};
    int code;

    if (o->init_from != NULL &&
        fix_init_from(cli, o->init_from, &fixed.init_from, &copy, &arena, &err) < 0) {
        arena_done(&arena);
        return cli_fail(cli, CLI_NOT_THERE, &err);
    }
    jobs = xcalloc(o->seeds.n, sizeof(*jobs));
    for (size_t i = 0; i < o->seeds.n; i++)
        jobs[i] = make_job(cli, &fixed, i, names[i], &arena);
    code = jobs_run(cli,
                    &(struct jobs_args){.jobs = jobs,
                                        .n = o->seeds.n,
                                        .at_once = (size_t)o->jobs,
                                        .is_meant = is_meant,
                                        .ctx = &series},
                    NULL);
    init_copy_done(&copy);
    arena_done(&arena);
    free(jobs);
    return code;
}

/* Returns 1 to continue; otherwise *ret_code is the exit code. */
static int begin_series(const struct cli *cli, const struct run_options *o, int *ret_code)
{
    char **names = xcalloc(o->seeds.n, sizeof(*names));
    struct err err = {0};
    int goes_on = 0;

    if (name_series(cli, o, names, &err) < 0)
        *ret_code = cli_fail(cli, CLI_USAGE, &err);
    else if (o->jobs > 1)
        *ret_code = train_at_once(cli, o, names);
    else
        goes_on = 1;
    for (size_t i = 0; i < o->seeds.n; i++)
        free(names[i]);
    free(names);
    return goes_on;
}

/* Whether any run starts anew and so needs the weights of --init-from. */
static int begins_any(const struct run_options *o)
{
    const size_t n_runs = o->is_series ? o->seeds.n : 1;

    return o->again == NULL || !o->again->committed || o->again->place + 1 < n_runs;
}

static int run_run(struct cli *cli, void *values, int argc, char **argv)
{
    struct run_options *o = values;
    struct keeper_task again;
    struct weights *init = NULL;
    struct err err = {0};
    int code;

    if (o->is_series && o->has_seed)
        return cli_usage(cli, "--seed and --seeds are both given, expected one");
    if (o->jobs > 1 && !o->is_series)
        return cli_usage(cli, "--jobs is for --seeds");
    if (o->jobs > 1 && o->detach)
        return cli_usage(cli, "--jobs and --detach are both given, expected one");
    if (argc != 1)
        return cli_usage(cli, "expected one configuration file, got %d", argc);
    o->config_path = argv[0];
    if (keeper_resume_task(&again)) {
        /* The supervisor may have died before it could report its first checkpoint. */
        again.committed |= newest_checkpoint(again.path) >= 0;
        o->again = &again;
    }
    if (o->is_series && o->again == NULL && !begin_series(cli, o, &code))
        return code;
    if (!cli_keep(cli, o->detach, &code))
        return code;
    if (train_check_rescue(o->rescue, &err) < 0)
        return fail_to_begin(cli, &err);
    if (o->init_from != NULL && begins_any(o) &&
        weights_find(&init, cli->runs_dir, o->init_from, init_copy_given(), cli_skipped,
                     cli, &err) < 0)
        return cli_fail(cli, err.code == ERR_CORRUPT ? CLI_FAILED : CLI_NOT_THERE, &err);
    code = train_all(cli, o, init);
    weights_free(init);
    first_variables_done(&o->variables);
    free(o->path);
    return code;
}

static const struct cli_option options[] = {
    {"name", "NAME", "the run's name (default: the configuration's, with a number)",
     CLI_TEXT(struct run_options, name)},
    {"seed", "N", "set run.seed", CLI_TAKE(take_seed)},
    {"seeds", "1-3,7", "one run per seed, one after another: NAME-s1 and so on",
     CLI_TAKE(take_seeds)},
    {"jobs", "N", "N of those at a time",
     CLI_NUMBER(struct run_options, jobs, 1, SEEDS_MAX)},
    {"set", "KEY=VALUE", "set a configuration value by its dotted path; repeatable",
     CLI_TEXTS(struct run_options, sets)},
    {"detach", NULL,
     "return after the first round; the run continues in the\n"
     "background",
     CLI_FLAG(struct run_options, detach)},
    {"force", NULL, "replace a finished run of that name",
     CLI_FLAG(struct run_options, force)},
    {"init-from", "RUN[@STEP]", "start with the weights of a checkpoint",
     CLI_TEXT(struct run_options, init_from)},
    {"until", "STEP",
     "stop there, as `brood stop` would; `resume` continues (with\n"
     "--seeds: each run, and the exit code is 4)",
     CLI_NUMBER(struct run_options, until, 1, INT64_MAX)},
    {"memory-limit", "SIZE",
     "fail if all processes of the run together take more\n"
     "memory, such as 8G; a log on a tmpfs and parameters that\n"
     "agents share count for each agent that maps them",
     CLI_TAKE(take_memory)},
    {"rescue", "DIR",
     "if the run directory is deleted meanwhile, write the last\n"
     "checkpoint into a run in DIR",
     CLI_TEXT(struct run_options, rescue)},
    {0}};

const struct command cmd_run = {
    .name = "run",
    .arguments = "CONFIG [options]",
    .summary = "Start a run and show its live view",
    .options = options,
    CLI_INTO(struct run_options, .jobs = 1),
    .help =
        "\nIf the view has more agents than rows, the arrow keys scroll.\n"
        "\nexample: brood run configs/simple_spread.yaml --set run.env_steps=100000\n",
    .run = run_run,
};
