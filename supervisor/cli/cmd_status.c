/* `brood status`: where a live run stands. */
#include "common/mem/xmalloc.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/metrics/json.h"
#include "supervisor/run/run_dir.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON: the answer as it came ---- */

static void put_object(struct json *j, const msgpack_object *o)
{
    switch (o->type) {
    case MSGPACK_OBJECT_MAP:
        json_object(j);
        for (uint32_t i = 0; i < o->via.map.size; i++) {
            char *key = xstrndup(o->via.map.ptr[i].key.via.str.ptr,
                                 o->via.map.ptr[i].key.via.str.size);

            json_key(j, key);
            put_object(j, &o->via.map.ptr[i].val);
            free(key);
        }
        json_close(j);
        break;
    case MSGPACK_OBJECT_ARRAY:
        json_array(j);
        for (uint32_t i = 0; i < o->via.array.size; i++)
            put_object(j, &o->via.array.ptr[i]);
        json_close(j);
        break;
    case MSGPACK_OBJECT_STR:
        json_strn(j, o->via.str.ptr, o->via.str.size);
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        json_u64(j, o->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        json_i64(j, o->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        json_f64(j, o->via.f64);
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        json_bool(j, o->via.boolean);
        break;
    default:
        json_null(j);
        break;
    }
}

static void print_json(const msgpack_object *status)
{
    struct json j = {0};
    const char *line;
    size_t len;

    json_begin(&j);
    put_object(&j, status);
    line = json_line(&j, &len);
    (void)fwrite(line, 1, len, stdout);
    json_done(&j);
}

/* ---- text ---- */

static uint64_t number(const msgpack_object *map, const char *key)
{
    const msgpack_object *o = msg_get(map, key);

    return o != NULL && o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? o->via.u64 : 0;
}

static void text(const msgpack_object *map, const char *key, char ret[64])
{
    ret[0] = '\0';
    (void)msg_get_str(map, key, ret, 64, NULL);
}

static void print_agent(const msgpack_object *a)
{
    char name[64], state[64], last[64];

    text(a, "name", name);
    text(a, "state", state);
    text(a, "last_exit", last);
    (void)printf("  %-16s %8" PRIu64 "  %-11s %8" PRIu64 " %8.1f MB  %s\n", name,
                 number(a, "pid"), state, number(a, "restarts"),
                 (double)number(a, "rss_bytes") / 1e6, last);
}

static void print_text(const msgpack_object *s)
{
    const msgpack_object *agents = msg_get(s, "agents");
    char run[64], state[64], steps[32], total[32];
    double rate = 0;
    int exact = 1;

    text(s, "run", run);
    text(s, "state", state);
    (void)msg_get_f64(s, "steps_per_second", &rate, NULL);
    (void)msg_get_bool(s, "exact", &exact, NULL);
    (void)printf("%s: %s, step %s", run, state,
                 format_count(number(s, "env_steps"), steps, sizeof(steps)));
    if (number(s, "total_steps") != 0)
        (void)printf(" of %s",
                     format_count(number(s, "total_steps"), total, sizeof(total)));
    (void)printf(", %s/s; supervisor %" PRIu64 ", keeper %" PRIu64 "%s\n",
                 format_count((uint64_t)rate, steps, sizeof(steps)), number(s, "pid"),
                 number(s, "keeper_pid"), exact ? "" : "; not exact");
    (void)printf("  %-16s %8s  %-11s %8s %11s  %s\n", "agent", "pid", "state", "restarts",
                 "memory", "last exit");
    for (uint32_t i = 0; agents != NULL && i < agents->via.array.size; i++)
        print_agent(&agents->via.array.ptr[i]);
}

static int run_status(struct cli *cli, int argc, char **argv)
{
    struct control_client *client = NULL;
    const struct msg *answer;
    struct err err = {0};
    char *path = NULL;
    int code = CLI_DONE, rc;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (argc - optind > 1)
        return cli_usage(cli, "one run is wanted, %d are given", argc - optind);
    rc = cli_open_run(cli, optind < argc ? argv[optind] : NULL, &path, &client, &err);
    if (rc == 0) {
        msg_map(control_client_begin(client, "status"), 0);
        rc = control_client_call(client, &answer, &err);
    }
    if (rc < 0)
        code = cli_fail_run(cli, &err);
    else if (cli->json)
        print_json(&answer->body);
    else
        print_text(&answer->body);
    control_client_close(client);
    free(path);
    return code;
}

const struct command cmd_status = {
    .name = "status",
    .arguments = "[RUN]",
    .summary = "A live run and each of its agents",
    .help = "\nexample: brood status simple_spread-1 --json\n",
    .run = run_status,
};
