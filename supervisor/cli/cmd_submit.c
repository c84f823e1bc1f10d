/* `brood submit`: gives a run to Slurm, as a batch job that survives preemption. */
#include "supervisor/cli/cli.h"
#include "supervisor/cli/train.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/run_schema.h"
#include "common/io/beneath.h"
#include "common/io/shell_quote.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/trial.h"
#include "supervisor/cli/seeds.h"
#include "supervisor/cli/submitted.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rundir/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NUMBER = 100000 };

struct submit {
    struct cli *cli;
    struct cli_texts sets; /* of --set */
    const char *config_path, *name;
    long long seed;         /* -1: none */
    struct seeds seeds;     /* none: one run */
    const char *seeds_text; /* in the syntax of --array */
    char **options;         /* of sbatch */
    size_t n_options;
    int is_dry;
    char runs_dir[PATH_MAX], cwd[PATH_MAX];
    struct binaries binaries;
};

/* ---- the script ---- */

static void put_assignment(FILE *f, const char *variable, const char *value)
{
    (void)fprintf(f, "%s=", variable);
    shell_quote(f, value);
    (void)fputc('\n', f);
}

/* Writes an option for sbatch, which reads quotes and backslashes as a shell does. */
static void put_option(FILE *f, const char *text)
{
    const int is_plain = strpbrk(text, " \t\"'#\\") == NULL;

    (void)fputs(is_plain ? " " : " \"", f);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', f);
        (void)fputc(*text, f);
    }
    if (!is_plain)
        (void)fputc('"', f);
}

/* Writes the options for sbatch. brood's come first: of two, sbatch takes the later
 * one. */
static void put_options(FILE *f, const struct submit *s, const char *name,
                        const char *folder)
{
    (void)fprintf(f, "#SBATCH --job-name=%s\n#SBATCH --output=\"%s/job-%%j.out\"\n", name,
                  folder);
    (void)fputs("#SBATCH --open-mode=append\n#SBATCH --requeue\n"
                "#SBATCH --signal=B:USR1@60\n",
                f);
    if (s->seeds.n > 0)
        (void)fprintf(f, "#SBATCH --array=%s\n", s->seeds_text);
    if (s->n_options > 0)
        (void)fputs("#SBATCH", f);
    for (size_t i = 0; i < s->n_options; i++)
        put_option(f, s->options[i]);
    if (s->n_options > 0)
        (void)fputc('\n', f);
}

static const char body[] =
    "requeue=\n"
    "\n"
    "# The run ends its round, writes a checkpoint and exits with code 4.\n"
    "stop() {\n"
    "    signalled=1\n"
    "    \"$brood\" stop --quiet \"$run\" 2>/dev/null ||\n"
    "        kill -TERM \"$child\" 2>/dev/null\n"
    "}\n"
    "\n"
    "# USR1: the time limit or a preemption is near (--signal). TERM: of somebody, or "
    "Slurm\n"
    "# itself cancels or requeues the job, which is then not RUNNING any more.\n"
    "trap 'requeue=1; stop' USR1\n"
    "trap '[ \"$(squeue --noheader --jobs=\"$SLURM_JOB_ID\" --format=%T)\" != RUNNING ] "
    "||\n"
    "    requeue=1; stop' TERM\n"
    "\n"
    "if ls \"$run/checkpoints\" 2>/dev/null | grep -q '^[0-9]'; then\n"
    "    \"$brood\" resume -- \"$run\" &\n"
    "else\n"
    "    \"$brood\" run --force --runs-dir \"$runs\" --name \"$name\" $seed -- "
    "\"$config\" &\n"
    "fi\n"
    "child=$!\n"
    "signalled=1\n"
    "while [ -n \"$signalled\" ]; do # wait is interrupted by a signal\n"
    "    signalled=\n"
    "    wait \"$child\"\n"
    "    code=$?\n"
    "done\n"
    "if [ -n \"$requeue\" ] && { [ \"$code\" = 4 ] || [ \"$code\" -gt 128 ]; }; then\n"
    "    scontrol requeue \"$SLURM_JOB_ID\"\n"
    "fi\n"
    "exit \"$code\"\n";

/* Returns the job's script; free(). */
static char *make_script(const struct submit *s, const char *name, const char *folder)
{
    struct xstream text;
    FILE *f = xstream_begin(&text);

    (void)fprintf(f, "#!/bin/bash\n# Runs or resumes %s%s; written by `brood submit`.\n",
                  name, s->seeds.n > 0 ? "-s<seed>" : "");
    put_options(f, s, name, folder);
    (void)fputs("\ncd -- ", f);
    shell_quote(f, s->cwd);
    (void)fputs(" || exit 1\n", f);
    put_assignment(f, "brood", s->binaries.supervisor);
    put_assignment(f, "runs", s->runs_dir);
    if (s->seeds.n > 0)
        (void)fprintf(f,
                      "name=%s-s$SLURM_ARRAY_TASK_ID\n"
                      "seed=\"--seed $SLURM_ARRAY_TASK_ID\"\n",
                      name);
    else
        (void)fprintf(f, "name=%s\nseed=\n", name);
    (void)fputs("run=$runs/$name\n", f);
    (void)fputs("config=$runs/.jobs/$name/config.yaml\n", f);
    (void)fputs(body, f);
    return xstream_end(&text);
}

/* ---- names ---- */

/* Waits until no other `brood submit` works in this runs directory: two at once would choose
 * one name. The lock is held until this process ends, and so is the folder (beneath.h): others
 * who may write there could make its names links to files of this user. */
static int take_turn(const struct submit *s, struct err *err)
{
    char *folder = submitted_jobs(s->runs_dir), *file = xasprintf("%s/.lock", folder);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc = tree_make(folder, err), fd = -1;

    if (rc == 0)
        rc = beneath_hold(folder, err);
    if (rc == 0 && (fd = beneath_open(file, O_RDWR | O_CREAT, 0666)) < 0)
        rc = err_errno(err, "%s", file);
    while (rc == 0 && fcntl(fd, F_OFD_SETLKW, &lock) < 0)
        if (errno != EINTR)
            rc = err_errno(err, "%s: cannot lock", file);
    if (rc < 0 && fd >= 0)
        (void)close(fd);
    free(file);
    free(folder);
    return rc;
}

/* Names a run as `brood run` does: with the first free number. free(). */
static char *choose_name(const struct submit *s, const struct run_config *config)
{
    if (s->name != NULL || s->seeds.n > 0)
        return xstrdup(s->name != NULL ? s->name : config->run.name);
    for (int i = 1; i < MAX_NUMBER; i++) {
        char *name = xasprintf("%s-%d", config->run.name, i);
        char *folder = submitted_folder(s->runs_dir, name);
        char *run = xasprintf("%s/%s", s->runs_dir, name);
        const int is_free = access(folder, F_OK) != 0 && access(run, F_OK) != 0;

        free(folder);
        free(run);
        if (is_free)
            return name;
        free(name);
    }
    return xstrdup(config->run.name);
}

/* Checks that the run is neither live nor in the queue. *ret_exists: the run exists, and
 * the job resumes it. */
static int check_run(const struct submit *s, const char *name, int *ret_exists,
                     struct err *err)
{
    char *path = xasprintf("%s/%s", s->runs_dir, name);
    struct submitted job;
    int rc = run_dir_check_name(name, err);

    *ret_exists = access(path, F_OK) == 0;
    if (rc == 0 && *ret_exists && run_dir_holder(path) != 0)
        rc = err_set(err, ERR_STATE, "%s is running already", name);
    if (rc == 0 && submitted_find(&job, s->runs_dir, name) && submitted_is_live(&job))
        rc = err_set(
            err, ERR_STATE,
            "%s is submitted already, as Slurm job %s (%s); `scancel %s` cancels it",
            name, job.id, job.state, job.id);
    if (rc == 0 && *ret_exists && s->sets.n + (s->seed >= 0) > 0)
        rc = err_set(err, ERR_ARG,
                     "%s exists and is resumed with its own configuration: --set and "
                     "--seed are for a new run",
                     name);
    free(path);
    return rc;
}

static char *name_of(const struct submit *s, const char *base, size_t i)
{
    return s->seeds.n > 0
               ? xasprintf("%s-s%llu", base, (unsigned long long)s->seeds.seed[i])
               : xstrdup(base);
}

/* ---- submitting ---- */

static int write_file(const char *folder, const char *file, const char *text,
                      struct err *err)
{
    char *path = xasprintf("%s/%s", folder, file);
    const int rc = atomic_file_write(path, text, strlen(text), 1, err);

    free(path);
    return rc;
}

/* Writes the configuration that the run will begin with: each run of an array has one, which a
 * later submission of other seeds does not change. It is the file's text and not the complete
 * configuration, which has no values for later steps: `brood run` plans those. */
static int keep_config(const struct submit *s, const char *base, size_t i,
                       const char *yaml, struct err *err)
{
    char *run = name_of(s, base, i), *folder = submitted_folder(s->runs_dir, run);
    int rc = tree_make(folder, err);

    if (rc == 0)
        rc = write_file(folder, "config.yaml", yaml, err);
    free(folder);
    free(run);
    return rc;
}

/* Writes the files of the job and submits it. *ret_id: the id that Slurm gave it;
 * free(). */
static int give(const char *folder, const char *script, char **ret_id, struct err *err)
{
    char *path = xasprintf("%s/job.sh", folder);
    int rc = tree_make(folder, err);

    *ret_id = NULL;
    if (rc == 0)
        rc = write_file(folder, "job.sh", script, err);
    if (rc == 0)
        rc = slurm_submit(path, ret_id, err);
    free(path);
    return rc;
}

/* Removes the folders that no job has after sbatch has refused it, so that their names are free
 * again. is_new: the submission has made the folder of `base`. */
static void forget(const struct submit *s, const char *base, int is_new)
{
    char *folder = submitted_folder(s->runs_dir, base);

    for (size_t i = 0; i < s->seeds.n; i++) {
        char *run = name_of(s, base, i), *own = submitted_folder(s->runs_dir, run);
        char *id = xasprintf("%s/job", own);

        if (!tree_exists(id))
            (void)tree_remove(own, NULL);
        free(id);
        free(own);
        free(run);
    }
    if (is_new)
        (void)tree_remove(folder, NULL);
    free(folder);
}

static void report(const struct submit *s, const char *run, const char *id, int exists)
{
    struct json j = {0};

    if (s->cli->json) {
        msg_json_begin_event(&j, "submitted");
        json_put_str(&j, "run", run);
        json_put_str(&j, "job", id);
        json_put_bool(&j, "resumes", exists);
        json_print(&j, stdout);
    } else if (!s->cli->quiet) {
        (void)printf("%s: Slurm job %s%s; `brood status %s` shows it\n", run, id,
                     exists ? ", which resumes it" : "", run);
    }
}

static int submit_named(const struct submit *s, const char *base, const char *yaml)
{
    const size_t n = s->seeds.n > 0 ? s->seeds.n : 1;
    char *folder = submitted_folder(s->runs_dir, base);
    char *script = make_script(s, base, folder);
    int *exists = xcalloc(n, sizeof(*exists)), rc = 0;
    const int is_new = !tree_exists(folder);
    char *id = NULL;
    struct err err = {0};

    for (size_t i = 0; rc == 0 && i < n; i++) {
        char *run = name_of(s, base, i);

        rc = check_run(s, run, &exists[i], &err);
        free(run);
    }
    for (size_t i = 0; rc == 0 && !s->is_dry && i < n; i++)
        rc = keep_config(s, base, i, yaml, &err);
    if (rc == 0 && s->is_dry)
        (void)fputs(script, stdout);
    else if (rc == 0) {
        rc = give(folder, script, &id, &err);
        if (rc == ERR_STATE)
            forget(s, base, is_new);
    }
    for (size_t i = 0; rc == 0 && id != NULL && i < n; i++) {
        char *run = name_of(s, base, i);
        char *own = s->seeds.n > 0
                        ? xasprintf("%s_%llu", id, (unsigned long long)s->seeds.seed[i])
                        : xstrdup(id);

        rc = submitted_write(s->runs_dir, run, own, &err);
        if (rc == 0)
            report(s, run, own, exists[i]);
        free(own);
        free(run);
    }
    free(id);
    free(exists);
    free(script);
    free(folder);
    return rc < 0 ? cli_fail(s->cli, rc == ERR_ARG ? CLI_USAGE : CLI_FAILED, &err)
                  : CLI_DONE;
}

/* ---- the command ---- */

static int take_seeds(const struct cli *cli, const char *text, void *to)
{
    struct submit *s = to;

    s->seeds_text = text;
    return seeds_take(cli, text, &s->seeds);
}

/* Takes the configuration and sbatch's options. Returns 0 or an exit code. */
static int take_arguments(struct submit *s, int argc, char **argv)
{
    if (s->seeds.n > 0 && s->seed >= 0)
        return cli_usage(s->cli, "--seed and --seeds are both given, expected one");
    if (argc == 0)
        return cli_usage(s->cli, "expected one configuration file");
    if (argc > 1 && argv[1][0] != '-')
        return cli_usage(
            s->cli, "expected one configuration file, and sbatch's options after --");
    s->config_path = argv[0];
    s->options = argv + 1;
    s->n_options = (size_t)(argc - 1);
    for (size_t i = 0; i < s->n_options; i++)
        if (strchr(s->options[i], '\n') != NULL)
            return cli_usage(s->cli, "option %zu of sbatch has a line break", i + 1);
    return 0;
}

static int prepare(struct submit *s, struct err *err)
{
    int rc = binaries_find(&s->binaries, err);

    if (rc == 0 && !s->is_dry && !command_is_on_path(".", "sbatch"))
        rc = err_set(err, ERR_NOT_FOUND,
                     "this needs Slurm, and PATH has no program sbatch; --dry-run prints "
                     "the script");
    if (rc == 0)
        rc = tree_make(s->cli->runs_dir, err);
    if (rc == 0 && (realpath(s->cli->runs_dir, s->runs_dir) == NULL ||
                    getcwd(s->cwd, sizeof(s->cwd)) == NULL))
        rc = err_errno(err, "%s", s->cli->runs_dir);
    if (rc == 0 && strpbrk(s->runs_dir, "\"\n%") != NULL)
        rc =
            err_set(err, ERR_ARG,
                    "Slurm cannot write below %s: a path with a quote, a percent sign or "
                    "a line's end",
                    s->runs_dir);
    return rc;
}

static int run_submit(struct cli *cli, void *values, int argc, char **argv)
{
    struct submit *s = values;
    struct trial trial = {.runs_dir = cli->runs_dir};
    struct policy_search search = cli_policy_search(cli);
    struct config_options co = train_config_options(cli, &s->sets, &search, &trial);
    struct run_config config;
    struct arena arena = ARENA_ZERO;
    struct err err = {0};
    char seed_set[64], *name;
    const char *yaml;
    int code;

    s->cli = cli;
    if ((code = take_arguments(s, argc, argv)) != 0)
        return code;
    if (prepare(s, &err) < 0 || (!s->is_dry && take_turn(s, &err) < 0))
        return cli_fail(cli, err.code == ERR_NOT_FOUND ? CLI_USAGE : CLI_FAILED, &err);
    if (s->seed >= 0) {
        (void)snprintf(seed_set, sizeof(seed_set), "run.seed=%lld", s->seed);
        s->sets.text[co.n_set++] = seed_set;
    }
    if (run_config_read(&config, s->config_path, &co, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    name = choose_name(s, &config);
    code = run_config_merged(s->config_path, co.set, co.n_set, &yaml, &arena, &err) < 0
               ? cli_fail(cli, CLI_USAGE, &err)
               : submit_named(s, name, yaml);
    free(name);
    arena_done(&arena);
    run_config_done(&config);
    return code;
}

static const struct cli_option options[] = {
    {"name", "NAME", "the run's name (default: the configuration's, with a number)",
     CLI_TEXT(struct submit, name)},
    {"seed", "N", "set run.seed", CLI_NUMBER(struct submit, seed, 0, INT64_MAX)},
    {"seeds", "1-5", "a job array, one run per seed: NAME-s1 and so on",
     CLI_TAKE(take_seeds)},
    {"set", "KEY=VALUE", "set a configuration value by its dotted path; repeatable",
     CLI_TEXTS(struct submit, sets)},
    {"dry-run", NULL, "print the script instead", CLI_FLAG(struct submit, is_dry)},
    {0}};

const struct command cmd_submit = {
    .name = "submit",
    .arguments = "CONFIG [options] [-- SBATCH OPTIONS]",
    .summary = "Give a run to Slurm, as a job that survives preemption",
    .options = options,
    CLI_INTO(struct submit, .seed = -1),
    .help =
        "\nThe job runs a copy of the configuration as it is now, or resumes the run if "
        "it\n"
        "exists. Before its time limit or a preemption (--signal=B:USR1@60) it writes a\n"
        "checkpoint, requeues itself, and later continues from there; so it does when "
        "Slurm\n"
        "requeues it. The result has the bytes of an undisturbed run. The script, the\n"
        "configuration and the output are in RUNS_DIR/.jobs/NAME. `brood status NAME` "
        "has\n"
        "the job's id and state. Runs directory, configuration and brood must have the "
        "same\n"
        "paths on all machines. With `cluster.launcher: slurm` the agents are spread "
        "over\n"
        "the job's machines.\n"
        "\nexample: brood submit configs/simple_spread.yaml --name far -- --time=30 -c "
        "4\n",
    .run = run_submit,
};
