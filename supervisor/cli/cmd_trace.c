/* `brood trace`: records how the processes of a live run spend the time of some
 * rounds. */
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/control/msg_json.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_STEPS = 100, MAX_STEPS = 100000, TRACE_MAX_BYTES = 1 << 30 };

/* ---- values of the answer: 0, NaN or "" if they are missing; texts are cut ---- */

static uint64_t facts_u64(const msgpack_object *map, const char *key)
{
    uint64_t v = 0;

    (void)msg_get_u64(map, key, UINT64_MAX, &v, NULL);
    return v;
}

static double facts_f64(const msgpack_object *map, const char *key)
{
    double v = (double)NAN;

    (void)msg_get_f64(map, key, &v, NULL);
    return v;
}

static const char *facts_text(const msgpack_object *map, const char *key, char ret[64])
{
    ret[0] = '\0';
    (void)msg_get_str(map, key, ret, 64, NULL);
    return ret;
}

/* ---- printing ---- */

static void print_line(const char *process, const char *work, uint64_t count,
                       double seconds, double of)
{
    char times[32] = "";

    if (count > 0)
        (void)snprintf(times, sizeof(times), "%" PRIu64, count);
    (void)printf("  %-20s %-20s %8s %10.3f ms %7.1f %%\n", process, work, times,
                 seconds * 1e3, of > 0 ? 100 * seconds / of : 0);
}

/* The rest of a process's time: it waits for work, or for a core. */
static void print_rest(const char *process, double rest, double of)
{
    print_line("", strcmp(process, "supervisor") == 0 ? "other" : "waiting", 0,
               rest > 0 ? rest : 0, of);
}

static void print_shares(const msgpack_object *m)
{
    const msgpack_object *list = msg_get(m, "shares");
    const double of = facts_f64(m, "seconds");
    char process[64], work[64], last[64] = "";
    double rest = 0;

    for (uint32_t i = 0;
         list != NULL && list->type == MSGPACK_OBJECT_ARRAY && i < list->via.array.size;
         i++) {
        const msgpack_object *s = &list->via.array.ptr[i];
        const double seconds = facts_f64(s, "seconds");
        const int is_next = strcmp(facts_text(s, "process", process), last) != 0;

        if (is_next && *last != '\0')
            print_rest(last, rest, of);
        if (is_next)
            rest = of;
        print_line(is_next ? process : "", facts_text(s, "work", work),
                   facts_u64(s, "count"), seconds, of);
        rest -= seconds;
        if (is_next && strcmp(process, "supervisor") == 0) {
            print_line("", "waiting", 0, facts_f64(m, "waiting_seconds"), of);
            rest -= facts_f64(m, "waiting_seconds");
        }
        strcpy(last, process);
    }
    if (*last != '\0')
        print_rest(last, rest, of);
}

static void print_trace(const struct cli *cli, const msgpack_object *m)
{
    char path[PATH_MAX] = "";

    if (cli->json) {
        msg_json_print_object(m);
        return;
    }
    (void)msg_get_str(m, "path", path, sizeof(path), NULL);
    (void)printf("%" PRIu64 " rounds in %.3f ms: %s\n", facts_u64(m, "rounds"),
                 facts_f64(m, "seconds") * 1e3, path);
    (void)printf("  %-20s %-20s %8s %13s %9s\n", "process", "work", "times", "time",
                 "share");
    print_shares(m);
    if (facts_u64(m, "left_out") > 0)
        (void)printf("%" PRIu64 " spans did not fit: trace fewer steps\n",
                     facts_u64(m, "left_out"));
}

/* Copies trace.json, which the run has written into its directory, to a file. */
static int copy_trace(const char *run, const char *to, struct err *err)
{
    char *from = xasprintf("%s/trace.json", run);
    struct wbuf text = {0};
    int rc = wbuf_read_file(&text, from, TRACE_MAX_BYTES, err);

    if (rc == 0)
        rc = cli_write_file(to, text.data, text.len, err);
    wbuf_done(&text);
    free(from);
    return rc;
}

/* ret_path: of the run's directory, also after an error; free(). */
static int trace(const struct cli *cli, const char *run, uint64_t rounds, char **ret_path,
                 struct err *err)
{
    struct control_client *client = NULL;
    const struct msg *answer;
    struct cli_wait wait;
    struct msg_out *o;
    int rc = cli_open_run(cli, run, CLI_ANSWERS_WITHIN_MS, ret_path, &client, err);

    if (rc == 0) {
        cli_wait_begin(&wait, cli, *ret_path, client);
        o = control_client_begin(client, "trace");
        msg_map(o, 1);
        msg_put_u64(o, "rounds", rounds);
        rc = control_client_call(client, &answer, err);
    }
    if (rc == 0)
        print_trace(cli, &answer->body);
    control_client_close(client);
    return rc;
}

struct options {
    long long steps;
    const char *out;
};

static int run_trace(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    char *path = NULL;
    struct err err = {0};
    int code;

    if (trace(cli, argv[0], (uint64_t)o->steps, &path, &err) < 0)
        code = cli_fail_run(cli, &err);
    else if (o->out != NULL && copy_trace(path, o->out, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    else
        code = CLI_DONE;
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"steps", "N", "number of rounds; in each, every copy makes one step (100)",
     CLI_NUMBER(struct options, steps, 1, MAX_STEPS)},
    {"out", "FILE", "also write the trace to FILE", CLI_TEXT(struct options, out)},
    {0}};

const struct command cmd_trace = {
    .name = "trace",
    .arguments = "[RUN]",
    .one = "run",
    .summary = "Record some rounds of a live run and show where the time goes",
    .options = options,
    CLI_INTO(struct options, .steps = 100),
    .help = "\nPrints how long each process spent on each kind of work, and writes "
            "trace.json\n"
            "into the run's directory, in Chrome's trace event format: open it at\n"
            "https://ui.perfetto.dev or chrome://tracing. The run continues "
            "meanwhile.\n" CLI_WAIT_HELP
            "\nexample: brood trace simple_spread-1 --steps 50\n",
    .takes = CLI_LIVE,
    .run = run_trace,
};
