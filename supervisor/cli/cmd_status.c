/* `brood status`: where a run stands, live or over. */
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/run/run_dir.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ANSWERS_WITHIN_MS = 2000 };

static void print_agent(const msgpack_object *a)
{
    const msgpack_object *rss = msg_get(a, "rss_bytes");
    char name[64], state[64], mode[64], last[64], memory[32] = "-";

    if (rss != NULL && rss->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        (void)snprintf(memory, sizeof(memory), "%.1f MB", (double)rss->via.u64 / 1e6);
    (void)printf("  %-16s %8" PRIu64 "  %-11s %8" PRIu64 " %11s  %s\n",
                 facts_text(a, "name", name), facts_u64(a, "pid"),
                 *facts_text(a, "given_up", mode) != '\0' ? mode
                                                          : facts_text(a, "state", state),
                 facts_u64(a, "restarts"), memory, facts_text(a, "last_exit", last));
}

static void print_how(const msgpack_object *s, int is_live)
{
    char rate[32];

    if (!is_live)
        (void)printf("; exit code %" PRIu64, facts_u64(s, "exit_code"));
    else
        (void)printf(", %s/s; supervisor %" PRIu64 ", keeper %" PRIu64,
                     format_count((uint64_t)fmax(0, facts_f64(s, "steps_per_second")),
                                  rate, sizeof(rate)),
                     facts_u64(s, "pid"), facts_u64(s, "keeper_pid"));
}

static void print_processes(const msgpack_object *list)
{
    if (list == NULL || list->type != MSGPACK_OBJECT_ARRAY)
        return;
    for (uint32_t i = 0; i < list->via.array.size; i++)
        print_agent(&list->via.array.ptr[i]);
}

static void print_text(const msgpack_object *s, int is_live)
{
    char run[64], state[64], steps[32], total[32], why[512] = "";
    int exact = 1;

    (void)msg_get_bool(s, "exact", &exact, NULL);
    (void)printf("%s: %s, step %s", facts_text(s, "run", run),
                 facts_text(s, "state", state),
                 format_count(facts_u64(s, "env_steps"), steps, sizeof(steps)));
    if (facts_u64(s, "total_steps") != 0)
        (void)printf(" of %s",
                     format_count(facts_u64(s, "total_steps"), total, sizeof(total)));
    print_how(s, is_live);
    (void)fputs(exact ? "" : "; not exact", stdout);
    if (msg_get_str(s, "not_portable", why, sizeof(why), NULL) == 0 && *why != '\0')
        (void)printf("; exact on this kind of machine only: %s", why);
    (void)printf("\n  %-16s %8s  %-11s %8s %11s  %s\n", "agent", "pid", "state",
                 "restarts", "memory", "last exit");
    print_processes(msg_get(s, "agents"));
    print_processes(msg_get(s, "environments"));
    cli_print_pending(msg_get(s, "pending"), "  pending: ");
}

static int run_status(struct cli *cli, int argc, char **argv)
{
    struct run_facts facts;
    struct err err = {0};
    char *path = NULL;
    int code = CLI_DONE;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (argc - optind > 1)
        return cli_usage(cli, "one run is wanted, %d are given", argc - optind);
    if (run_dir_find(cli->runs_dir, optind < argc ? argv[optind] : NULL, &path, &err) < 0)
        return cli_fail_run(cli, &err);
    run_facts_get(&facts, path, ANSWERS_WITHIN_MS);
    if (facts.is_denied && run_dir_denied(path, &err) < 0)
        code = cli_fail_run(cli, &err);
    else if (cli->json)
        msg_json_print_object(facts.map);
    else
        print_text(facts.map, facts.is_live);
    run_facts_done(&facts);
    free(path);
    return code;
}

const struct command cmd_status = {
    .name = "status",
    .arguments = "[RUN]",
    .summary = "A run and each of its agents, live or over",
    .help =
        "\nRUN: a name under the runs directory or a path; default: the newest run. "
        "A\nlive run is asked; of one that is over, or was killed, its journal "
        "tells. Changes that are agreed and not yet in force (`brood set`) are pending.\n"
        "\nexample: brood status simple_spread-1 --json\n",
    .run = run_status,
};
