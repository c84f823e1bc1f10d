/* `brood tag`: tags of a run, and a note about it. */
#include "common/text/plain_text.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_tags.h"

#include <stdlib.h>

static void print_tags(const struct cli *cli, const char *run, const struct run_tags *t)
{
    struct json j = {0};

    if (cli->json) {
        json_object(&j);
        json_put_str(&j, "run", run);
        run_tags_json(t, &j);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s: %s", PLAIN_NAME(run), t->n > 0 ? "" : "no tags");
        for (size_t i = 0; i < t->n; i++)
            (void)printf("%s%s", i > 0 ? ", " : "", t->tag[i]);
        (void)printf("%s%s\n", t->note != NULL ? "; " : "",
                     t->note != NULL ? t->note : "");
    }
}

/* Changes a run's tags, or only reads them if there is no change. */
static int change_tags(const struct cli *cli, const char *path,
                       const struct run_tags_change *change)
{
    char *run = run_dir_name_of(path);
    struct run_tags tags = {0};
    struct err err = {0};
    int code = CLI_DONE, rc;

    if (change->n_add == 0 && change->n_remove == 0 && change->note == NULL)
        rc = run_tags_read(&tags, path, &err);
    else
        rc = run_tags_change(&tags, path, change, &err);
    if (rc < 0) {
        (void)err_wrap(&err, "%s", run);
        code =
            cli_fail(cli,
                     rc == ERR_ARG || rc == ERR_NOT_FOUND || rc == ERR_LIMIT ? CLI_USAGE
                                                                             : CLI_FAILED,
                     &err);
    } else {
        print_tags(cli, run, &tags);
    }
    run_tags_done(&tags);
    free(run);
    return code;
}

struct options {
    struct cli_texts remove;
    const char *note;
};

static int run_tag(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct run_tags_change change = {
        .note = o->note, .remove = o->remove.text, .n_remove = o->remove.n};
    struct err err = {0};
    char *path = NULL;
    int code;

    if (argc == 0)
        return cli_usage(cli, "expected a run, and tags");
    if (run_dir_find(cli->runs_dir, argv[0], &path, &err) < 0)
        return cli_fail_run(cli, &err);
    change.add = (const char *const *)(argv + 1);
    change.n_add = (size_t)(argc - 1);
    code = change_tags(cli, path, &change);
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"remove", "TAG", "take a tag away (repeatable)", CLI_TEXTS(struct options, remove)},
    {"note", "TEXT", "a line about the run; an empty one removes it",
     CLI_TEXT(struct options, note)},
    {0}};

const struct command cmd_tag = {
    .name = "tag",
    .arguments = "RUN [TAG...] [options]",
    .summary = "Tag a run, or note something about it",
    .options = options,
    CLI_INTO(struct options, {0}),
    .help = "\nRUN may be live or over. Without tags and options, its tags are printed.\n"
            "`brood runs --where tag=TAG` lists the runs with a tag.\n"
            "\nexample: brood tag simple_spread-1 paper --note 'figure 3, left'\n",
    .run = run_tag,
};
