/* `brood complete`: prints the words that can continue a command line, for the shells'
 * completion (scripts/completion). It reads them from the command's row of the command
 * table: the words of `arguments`, its options, and the words for their values. */
#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/io/patience.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/scan.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/env/env.h"
#include "supervisor/facts/files.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/save/checkpoint_choose.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/study/study_dir.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PLACES = 8, PATH_BYTES = 512 };

/* What an argument, or the value of an option, can be. The shell itself completes files. */
enum kind {
    FILES = 0,
    RUNS = 1,
    STUDIES = 2,
    AGENTS = 4,
    KEYS = 8,
    ENVIRONMENTS = 16,
    ALGORITHMS = 32,
    STEPS = 64,
    METRICS = 128,
    TAGS = 256,
    CONDITIONS = 512,
};

struct completion {
    const char *word;               /* that is being typed */
    const struct command *command;  /* of the line */
    const char *runs_dir;           /* of the line, or of the caller */
    const char *run;                /* the first argument; NULL: there is none yet */
    const struct cli_option *taken; /* the option whose value is being typed, or NULL */
    size_t place;                   /* number of arguments before the word */
    int only_arguments;             /* "--" was given */
    int only_keys;                  /* --cancel was given: keys have no value */
};

/* Prints the candidate head + tail if it begins with the word. One with control characters is
 * left out: no shell could take it. */
static void offer(const struct completion *c, const char *head, const char *tail)
{
    char text[3 * PATH_BYTES];

    (void)snprintf(text, sizeof(text), "%s%s", head, tail);
    if (text_after(text, c->word) != NULL && strcmp(PLAIN_NAME(text), text) == 0)
        (void)printf("%s\n", text);
}

/* ---- runs, their checkpoints and agents ---- */

/* Whether the command takes the run: some need a live one, others one that is over. */
static int takes_run(const struct command *command, const char *path)
{
    return command->takes == CLI_ANY ||
           (command->takes == CLI_LIVE) == (run_dir_holder(path) != 0);
}

static void offer_runs(const struct completion *c)
{
    size_t n;
    char **paths;

    (void)run_dir_list(c->runs_dir, &paths, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        patience_enter(paths[i]);
        if (patience_check(NULL) < 0 || takes_run(c->command, paths[i])) {
            char *name = run_dir_name_of(paths[i]);

            offer(c, name, "");
            free(name);
        }
        patience_leave();
    }
    run_dir_list_free(paths, n);
}

static void offer_studies(const struct completion *c)
{
    const enum cli_runs takes = c->command->takes;
    char **paths;
    size_t n;

    study_dir_list(c->runs_dir, &paths, &n);
    for (size_t i = 0; i < n; i++)
        if (takes == CLI_ANY || (takes == CLI_LIVE) == study_dir_is_locked(paths[i]))
            offer(c, text_base_name(paths[i]), "");
    run_dir_list_free(paths, n);
}

/* Offers the steps of a run's checkpoints and `best`, each after `head`. run NULL: the newest
 * run. */
static void offer_steps(const struct completion *c, const char *run, const char *head)
{
    struct err err = {0};
    char *path, dir[PATH_BYTES], step[32];
    uint64_t *steps = NULL;
    struct best_value best;
    size_t n = 0;

    if (run_dir_find(c->runs_dir, run, &path, &err) < 0)
        return;
    (void)snprintf(dir, sizeof(dir), "%s/checkpoints", path);
    if (checkpoint_list(dir, &steps, &n, &err) == 0)
        for (size_t i = 0; i < n; i++) {
            (void)snprintf(step, sizeof(step), "%llu", (unsigned long long)steps[i]);
            offer(c, head, step);
        }
    if (checkpoint_find_best(dir, &best, &err) == 0)
        offer(c, head, CHECKPOINT_BEST);
    free(steps);
    free(path);
}

/* Offers runs or, after "RUN@", the steps of its checkpoints. */
static void offer_points(const struct completion *c)
{
    const char *at = strchr(c->word, '@');
    char run[PATH_BYTES], head[PATH_BYTES + 1];

    if (at == NULL) {
        offer_runs(c);
        return;
    }
    (void)snprintf(run, sizeof(run), "%.*s", (int)(at - c->word), c->word);
    (void)snprintf(head, sizeof(head), "%s@", run);
    offer_steps(c, run, head);
}

/* The path of the line's run, RUN or RUN@STEP, or of the newest one; free(). NULL: there is none. */
static char *path_of_run(const struct completion *c)
{
    const char *step;
    char *run = c->run != NULL ? run_dir_split(c->run, &step) : NULL, *path = NULL;

    (void)run_dir_find(c->runs_dir, run, &path, NULL);
    free(run);
    return path;
}

static void offer_agents(const struct completion *c)
{
    char *path = path_of_run(c);
    struct run_record record;

    if (path == NULL)
        return;
    patience_enter(path);
    run_record_read(&record, path);
    patience_leave();
    for (size_t i = 0; i < record.status.n_agents; i++)
        offer(c, record.status.agents[i].name, "");
    run_record_done(&record);
    free(path);
}

/* ---- what its metrics and tags are called ---- */

static void offer_metrics(const struct completion *c)
{
    char *path = path_of_run(c);
    struct progress *p = path != NULL ? run_facts_progress(path) : NULL;

    for (size_t i = 0; p != NULL && i < progress_n_columns(p); i++)
        offer(c, progress_name(p, i), "");
    progress_free(p);
    free(path);
}

/* Offers the tags of the run or, with all, of every run, each once after `head`. */
static void offer_tags(const struct completion *c, const char *head, int all)
{
    char **paths = NULL, **seen = NULL;
    size_t n = 0, n_seen = 0;

    if (all) {
        (void)run_dir_list(c->runs_dir, &paths, &n, NULL);
    } else {
        paths = xcalloc(1, sizeof(*paths));
        paths[0] = path_of_run(c);
        n = paths[0] != NULL;
    }
    for (size_t i = 0; i < n; i++) {
        struct run_tags tags;

        patience_enter(paths[i]);
        if (run_tags_read(&tags, paths[i], NULL) < 0)
            tags = (struct run_tags){0};
        patience_leave();
        for (size_t k = 0; k < tags.n; k++) {
            size_t at = 0;

            while (at < n_seen && strcmp(seen[at], tags.tag[k]) != 0)
                at++;
            if (at < n_seen)
                continue;
            offer(c, head, tags.tag[k]);
            seen = xreallocarray(seen, n_seen + 1, sizeof(*seen));
            seen[n_seen++] = xstrdup(tags.tag[k]);
        }
        run_tags_done(&tags);
    }
    run_dir_list_free(seen, n_seen);
    run_dir_list_free(paths, n);
}

/* ---- keys of the configuration, and their values ---- */

static void offer_algorithms(const struct completion *c, const char *head)
{
    const struct algorithm_info *a;

    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++)
        offer(c, head, a->name);
}

static void offer_environments(const struct completion *c, const char *head)
{
    const struct env_info *e;

    for (size_t i = 0; (e = env_info_at(i)) != NULL; i++)
        offer(c, head, e->id);
}

/* Offers the values of a field, each after `head`, the "KEY=" that the word begins
 * with. */
static void offer_values(const struct completion *c, const struct field *f,
                         const char *head)
{
    if (strcmp(f->key, "algorithm") == 0)
        offer_algorithms(c, head);
    else if (strcmp(f->key, "id") == 0)
        offer_environments(c, head);
    else if (f->type == FIELD_BOOL) {
        offer(c, head, "true");
        offer(c, head, "false");
    }
    for (size_t i = 0; f->type == FIELD_ENUM && f->names[i] != NULL; i++)
        offer(c, head, f->names[i]);
}

/* Offers the keys of a section at `path`, or, for a word that has a value, its values. agent:
 * whose settings are meant; NULL: those of all algorithms. */
static void offer_keys(const struct completion *c, const struct schema *s,
                       const char *path, const struct agent_config *agent)
{
    const size_t typed = strcspn(c->word, "=");

    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const struct schema *below = schema_below(f, agent);
        char key[PATH_BYTES], child[PATH_BYTES + 2];

        (void)snprintf(key, sizeof(key), "%s%s", path, f->key);
        if (below != NULL) {
            (void)snprintf(child, sizeof(child), "%s.", key);
            offer_keys(c, below, child, agent);
        } else if (c->command->takes == CLI_LIVE && f->change == CHANGE_RESTART)
            continue; /* a live run keeps it */
        else if (c->word[typed] == '\0')
            offer(c, key, c->only_keys ? "" : "=");
        else if (text_is_word(c->word, typed, key)) {
            (void)snprintf(child, sizeof(child), "%s=", key);
            offer_values(c, f, child);
        }
    }
}

/* Reads the configuration of the line's run, as far as it can be read. */
static int read_config(const struct completion *c, struct run_config *ret)
{
    char *path = c->run != NULL ? path_of_run(c) : NULL;
    int rc;

    if (path == NULL)
        return -1;
    patience_enter(path);
    rc = files_read_config(ret, path, NULL);
    patience_leave();
    free(path);
    return rc;
}

/* Offers the keys of the run, and those of the agent or team that the word names:
 * agents.agent_0.discount. Settings are those of the run's agents, if the line names a run. */
static void offer_all_keys(const struct completion *c)
{
    const char *agent = text_after(c->word, "agents."), *dot;
    struct run_config config = {0};
    const int has_config = read_config(c, &config) == 0;
    char path[PATH_BYTES];

    offer_keys(c, &run_schema, "", has_config ? &config.defaults : NULL);
    for (size_t i = 0; i < config.n_agents; i++) {
        (void)snprintf(path, sizeof(path), "agents.%s.", config.agents[i].name);
        offer(c, path, "");
    }
    if (agent != NULL && (dot = strchr(agent, '.')) != NULL) {
        /* a team and others have the settings of `defaults` */
        const struct agent_config *own = has_config ? &config.defaults : NULL;

        for (size_t i = 0; has_config && i < config.n_agents; i++)
            if (text_is_word(agent, (size_t)(dot - agent), config.agents[i].name))
                own = &config.agents[i];
        (void)snprintf(path, sizeof(path), "%.*s", (int)(dot + 1 - c->word), c->word);
        offer_keys(c, &agent_schema, path, own);
    }
    run_config_done(&config);
}

/* ---- conditions of `runs --where` ---- */

/* The word may have several, with spaces between: offers how the last one may go on. */
static void offer_conditions(const struct completion *c)
{
    static const char *const fields[] = {"state=", "tag=", "name=", "env=", "algorithm="};
    const char *space = strrchr(c->word, ' ');
    const size_t before = space != NULL ? (size_t)(space + 1 - c->word) : 0;
    const char *last = c->word + before;
    char head[PATH_BYTES];

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        (void)snprintf(head, sizeof(head), "%.*s%s", (int)before, c->word, fields[i]);
        if (strchr(last, '=') == NULL)
            offer(c, head, "");
    }
    (void)snprintf(head, sizeof(head), "%.*s", (int)(before + strcspn(last, "=") + 1),
                   c->word);
    for (size_t i = 0; text_after(last, "state=") != NULL && run_states[i] != NULL; i++)
        if (strchr(run_states[i], ' ') == NULL)
            offer(c, head, run_states[i]);
    if (text_after(last, "tag=") != NULL)
        offer_tags(c, head, 1);
    if (text_after(last, "env=") != NULL)
        offer_environments(c, head);
    if (text_after(last, "algorithm=") != NULL)
        offer_algorithms(c, head);
}

/* ---- the kinds at each place of a command line ---- */

static void offer_kinds(const struct completion *c, unsigned kinds)
{
    if (kinds & RUNS)
        offer_points(c);
    if (kinds & STUDIES)
        offer_studies(c);
    if (kinds & AGENTS)
        offer_agents(c);
    if (kinds & KEYS)
        offer_all_keys(c);
    if (kinds & ENVIRONMENTS)
        offer_environments(c, "");
    if (kinds & ALGORITHMS)
        offer_algorithms(c, "");
    if (kinds & STEPS)
        offer_steps(c, c->run, "");
    if (kinds & METRICS)
        offer_metrics(c);
    if (kinds & TAGS) /* as an argument: of all runs; of --remove: the run's */
        offer_tags(c, "", c->taken == NULL);
    if (kinds & CONDITIONS)
        offer_conditions(c);
}

/* The kind that a word of `arguments` names: "[RUN]", "AGENT", "KEY=VALUE...". */
static unsigned kind_of(const char *text, size_t len)
{
    static const struct {
        const char *name;
        unsigned kind;
    } names[] = {{"RUN", RUNS},         {"STUDY", STUDIES},         {"AGENT", AGENTS},
                 {"KEY", KEYS},         {"ID", ENVIRONMENTS},       {"ENV", ENVIRONMENTS},
                 {"STEP", STEPS},       {"ALGORITHM", ALGORITHMS},  {"A", ALGORITHMS},
                 {"METRIC", METRICS},   {"CONDITIONS", CONDITIONS}, {"TAG", TAGS},
                 {"CONDITION", METRICS} /* begins with one */};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (text_is_word(text, len, names[i].name))
            return names[i].kind;
    return FILES;
}

/* The kinds that are possible at that place of a command's `arguments`, or of an option's
 * `value`; "env.KEY" is a KEY. "A | B" are two kinds at one place. An
 * argument in brackets may be left out: the next one is then possible, too. The last one
 * repeats if it has dots. */
static unsigned kinds_at(const char *arguments, size_t place)
{
    unsigned kinds[MAX_PLACES + 1] = {0};
    int is_optional[MAX_PLACES + 1] = {0}, is_repeated = 0, is_same = 0;
    size_t n = 0, i;

    for (const char *p = arguments; *p != '\0';) {
        const size_t len = strcspn(p, " ");
        const int has_bracket = *p == '[';
        const char *name =
            p + has_bracket + strspn(p + has_bracket, "abcdefghijklmnopqrstuvwxyz.");
        const size_t letters = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        if (len == 1 && *p == '|')
            is_same = 1;
        else if (strncmp(p + has_bracket, "--", 2) == 0)
            break;
        else if (letters > 0 && n < MAX_PLACES) {
            n -= is_same && n > 0;
            /* a name with a suffix, such as STUDY.yaml, is a file */
            kinds[n] |= name[letters] == '.' && name[letters + 1] != '.'
                            ? FILES
                            : kind_of(name, letters);
            is_optional[n] |= has_bracket;
            is_repeated =
                (is_same && is_repeated) || (len > 3 && memmem(p, len, "...", 3) != NULL);
            is_same = 0;
            n++;
        }
        p += len;
        p += strspn(p, " ");
    }
    if (place >= n && is_repeated)
        place = n - 1;
    for (i = place; i < n && is_optional[i] && kinds[i] != FILES; i++)
        kinds[place] |= kinds[i + 1];
    return place < n ? kinds[place] : FILES;
}

/* word: "--option", "--option=VALUE" or "-o". */
static const struct cli_option *find_option(const struct cli_option *all,
                                            const char *word)
{
    const size_t len = strcspn(word + 1 + (word[1] == '-'), "=");

    for (; all != NULL && all->name != NULL; all++)
        if (word[1] == '-' ? text_is_word(word + 2, len, all->name)
                           : len == 1 && word[1] == all->letter)
            return all;
    return NULL;
}

static void offer_options(const struct completion *c, const struct cli_option *o)
{
    for (; o != NULL && o->name != NULL; o++)
        offer(c, "--", o->name);
}

/* words: those between the command and the one that is being typed. */
static void complete(struct completion *c, char **words, int n)
{
    for (int i = 0; i < n; i++) {
        c->taken = NULL;
        if (c->only_arguments || words[i][0] != '-') {
            if (c->place++ == 0)
                c->run = words[i];
        } else if (strcmp(words[i], "--") == 0)
            c->only_arguments = 1;
        else if (words[i][1] != '\0' &&
                 ((c->taken = find_option(c->command->options, words[i])) != NULL ||
                  (c->taken = find_option(cli_shared_options, words[i])) != NULL)) {
            const char *value = strchr(words[i], '=');

            c->only_keys |= strcmp(c->taken->name, "cancel") == 0;
            if (c->taken->kind == CLI_IS_FLAG)
                c->taken = NULL;
            else if (value != NULL || i + 1 < n) {
                value = value != NULL ? value + 1 : words[++i];
                if (strcmp(c->taken->name, "runs-dir") == 0)
                    c->runs_dir = value;
                c->taken = NULL;
            }
        }
    }
    if (c->taken == NULL && c->word[0] == '-' && !c->only_arguments) {
        offer_options(c, c->command->options);
        offer_options(c, cli_shared_options);
    } else if (c->taken == NULL)
        offer_kinds(c, kinds_at(c->command->arguments, c->place));
    else if (c->taken->kind != CLI_IS_NUMBER) /* any step may be one */
        offer_kinds(c, kinds_at(c->taken->value, 0));
}

static int run_complete(struct cli *cli, void *values, int argc, char **argv)
{
    struct completion c = {0};

    if (argc == 0)
        return cli_usage(cli, "expected the words of a command line after --");
    c.runs_dir = cli->runs_dir;
    c.word = argv[argc - 1];
    if (argc == 1) {
        for (size_t i = 0; (c.command = cli_command_at(i)) != NULL; i++)
            offer(&c, c.command->name, "");
        return CLI_DONE;
    }
    c.command = cli_command_find(argv[0]);
    if (c.command != NULL)
        complete(&c, argv + 1, argc - 2);
    return CLI_DONE;
}

const struct command cmd_complete = {
    .name = "complete",
    .arguments = "-- WORD...",
    .summary = "Print what a command line may go on with, for shells",
    .help =
        "\nThe words are those after `brood`; the last one is completed, and may be "
        "empty.\n"
        "Commands, options, runs, checkpoints, agents, and keys with their values are\n"
        "printed, one on each line; nothing is printed where a file is expected.\n"
        "bash: source scripts/completion/brood.bash; fish: brood.fish there; zsh: add\n"
        "scripts/completion to fpath before compinit. `meson install` installs all.\n"
        "\nexample: brood complete -- kill simple_spread-1 ''\n",
    .run = run_complete,
};
