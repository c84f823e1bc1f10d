/* `brood runs`: lists the runs. */
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/size_text.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/run/run_dir.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS_WITHIN_MS = 500 };

static void print_text(const struct run_status *s, uint64_t disk_bytes, const char *began)
{
    char steps[32], total[32], of[72], disk[SIZE_TEXT_BYTES], mean[32] = "-";

    if (!isnan(s->team_return_mean))
        (void)snprintf(mean, sizeof(mean), "%.2f", s->team_return_mean);
    (void)snprintf(of, sizeof(of), s->total_steps != 0 ? "%s of %s" : "%s",
                   format_count(s->env_steps, steps, sizeof(steps)),
                   format_count(s->total_steps, total, sizeof(total)));
    (void)printf("%-24s %-13s %24s %10s %8s  %.10s %.5s\n", s->run, s->state, of, mean,
                 size_text(disk_bytes, disk), began,
                 strlen(began) > 11 ? began + 11 : "");
}

/* Prints the keys of `status --json`, and those that only this list has. */
static void print_json(const struct run_status *s, const char *path, uint64_t disk_bytes,
                       const char *began)
{
    static const char *const keys[] = {"run",
                                       "state",
                                       "exit_code",
                                       "pid",
                                       "env_steps",
                                       "total_steps",
                                       "episodes",
                                       "total_episodes",
                                       "checkpoint_step",
                                       "team_return_mean"};
    struct json j = {0};

    json_begin(&j);
    json_object(&j);
    run_status_json_some(&j, s, keys, sizeof(keys) / sizeof(keys[0]));
    json_key(&j, "disk_bytes");
    json_u64(&j, disk_bytes);
    json_key(&j, "began");
    json_str(&j, *began != '\0' ? began : NULL);
    json_key(&j, "path");
    json_str(&j, path);
    json_close(&j);
    msg_json_print(&j);
    json_done(&j);
}

static void print_run(const struct cli *cli, const char *path)
{
    const uint64_t disk_bytes = tree_disk_bytes(path);
    const int is_held = beneath_hold(path, NULL) == 0;
    struct run_facts facts;
    char began[32];

    run_record_began(path, began);
    run_facts_get(&facts, path, ANSWERS_WITHIN_MS);
    if (cli->json)
        print_json(&facts.status, path, disk_bytes, began);
    else
        print_text(&facts.status, disk_bytes, began);
    run_facts_done(&facts);
    if (is_held)
        beneath_release(path);
}

static int run_runs(struct cli *cli, int argc, char **argv)
{
    char **paths;
    size_t n;
    int code = CLI_DONE;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (optind < argc)
        return cli_usage(cli, "expected no arguments");
    paths = run_dir_list(cli->runs_dir, &n);
    if (!cli->json && n > 0)
        (void)printf("%-24s %-13s %24s %10s %8s  %s\n", "run", "state", "steps", "return",
                     "disk", "began (UTC)");
    for (size_t i = 0; i < n; i++) {
        print_run(cli, paths[i]);
        free(paths[i]);
    }
    free(paths);
    return CLI_DONE;
}

const struct command cmd_runs = {
    .name = "runs",
    .arguments = "",
    .summary = "List the runs: state, steps, last return, disk use",
    .help = "\nThe newest run comes first. Commands use it where RUN is left out.\n"
            "\nexample: brood runs --json\n",
    .run = run_runs,
};
