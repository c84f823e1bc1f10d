/* `brood set`: changes the configuration of a live run, and cancels pending changes. */
#include "common/config/run_schema.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/control/msg_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A string of the answer, of any length; free(). */
static char *text_of(const struct msg *m, const char *key)
{
    const msgpack_object *o = msg_get(&m->body, key);
    const int is_text = o != NULL && o->type == MSGPACK_OBJECT_STR;

    return is_text ? xstrndup(o->via.str.ptr, o->via.str.size) : xstrdup("");
}

static void print_changes(const struct cli *cli, uint64_t at, const char *changes,
                          const char *waits)
{
    if (cli->json) {
        struct json j = {0};

        msg_json_begin_event(&j, "set");
        json_put_u64(&j, "at", at);
        json_key(&j, "changes");
        changes_json(&j, changes);
        json_key(&j, "waits");
        changes_json(&j, waits);
        json_print(&j, stdout);
        return;
    }
    if (cli->quiet)
        return;
    if (*changes != '\0')
        (void)printf("from step %" PRIu64 " on: %s\n", at, changes);
    if (*waits != '\0')
        (void)printf("with the next `brood respawn` of its agent: %s\n", waits);
    if (*changes == '\0' && *waits == '\0')
        (void)printf("nothing changes: the values are these already\n");
}

/* Sends the words as the request's parameter `what`. */
static int ask(struct control_client *c, const char *what,
               const struct cli_changes *words, const uint64_t *at,
               const struct msg **ret_answer, struct err *err)
{
    struct msg_out *o = control_client_begin(c, "set");

    msg_map(o, at != NULL ? 2 : 1);
    msg_key(o, what);
    msg_array(o, words->n);
    for (size_t i = 0; i < words->n; i++)
        msg_str(o, words->words[i]);
    if (at != NULL)
        msg_put_u64(o, "at", *at);
    return control_client_call(c, ret_answer, err);
}

int cli_change_run(const struct cli *cli, struct control_client *c, const char *path,
                   const struct cli_changes *changes, const uint64_t *at, struct err *err)
{
    const struct msg *answer;
    struct cli_wait wait;
    char *taken, *waits;
    uint64_t taken_at = 0;
    int rc;

    cli_wait_begin(&wait, cli, path, c);
    rc = ask(c, "changes", changes, at, &answer, err);
    if (rc < 0)
        return rc;
    taken = text_of(answer, "changes");
    waits = text_of(answer, "waits");
    (void)msg_get_u64(&answer->body, "at", UINT64_MAX, &taken_at, NULL);
    print_changes(cli, taken_at, taken, waits);
    free(taken);
    free(waits);
    return rc;
}

/* Cancels the pending changes of these keys; without any: all of them. */
static int cancel_changes(const struct cli *cli, struct control_client *c,
                          const struct cli_changes *keys, struct err *err)
{
    const struct msg *answer;
    struct arena arena = ARENA_ZERO;
    struct run_status s;
    const int rc = ask(c, "cancel", keys, NULL, &answer, err);

    if (rc == ERR_TIMEOUT)
        (void)err_add(err, CLI_NOT_TAKEN_BACK);
    if (rc == 0 && cli->json) {
        struct json j = {0};

        msg_json_begin_event(&j, "cancel");
        msg_json_put_pairs(&j, &answer->body);
        json_print(&j, stdout);
    } else if (rc == 0 && !cli->quiet) {
        run_status_unpack_pending(&s, "cancelled", &answer->body, &arena);
        if (s.n_pending == 0)
            (void)printf("nothing was pending\n");
        cli_print_pending("cancelled: ", s.pending, s.n_pending);
        arena_done(&arena);
    }
    return rc;
}

/* Whether the word is a key, such as "defaults.polyak", and not the name of a run. */
static int is_key(const char *word)
{
    char section[32] = "";

    if (strchr(word, '.') == NULL)
        return 0;
    (void)snprintf(section, sizeof(section), "%.*s", (int)strcspn(word, "."), word);
    return schema_find(&run_schema, section) != NULL;
}

struct options {
    long long step; /* -1: the next round */
    int cancels;
};

static int set_run(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    const int cancels = o->cancels, has_step = o->step >= 0;
    const uint64_t at = (uint64_t)o->step;
    struct control_client *client = NULL;
    struct cli_changes changes;
    const char *run = NULL;
    char *path = NULL;
    struct err err = {0};
    int code = CLI_DONE;

    if (cancels && has_step)
        return cli_usage(cli, "--cancel acts at once and takes no --at-step");
    if (argc > 0 && strchr(argv[0], '=') == NULL && !(cancels && is_key(argv[0]))) {
        run = *argv++;
        argc--;
    }
    if (argc == 0 && !cancels)
        return cli_usage(cli, "expected KEY=VALUE");
    for (int i = 0; i < argc && cancels; i++)
        if (strchr(argv[i], '=') != NULL)
            return cli_usage(cli, "%s: --cancel takes keys without a value", argv[i]);
    changes = (struct cli_changes){argv, (size_t)argc};
    if (cli_open_run(cli, run, CLI_ANSWERS_WITHIN_MS, &path, &client, &err) < 0 ||
        (cancels ? cancel_changes(cli, client, &changes, &err)
                 : cli_change_run(cli, client, path, &changes, has_step ? &at : NULL,
                                  &err)) < 0)
        code = cli_fail_run(cli, &err);
    control_client_close(client);
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"at-step", "N",
     "before the first round at or after this step\n"
     "(default: the next round)",
     CLI_NUMBER(struct options, step, 0, INT64_MAX)},
    {"cancel", "[KEY...]",
     "\n"
     "cancel changes that are not yet in force: those of the\n"
     "keys, or all; `brood status` lists them as pending",
     CLI_FLAG(struct options, cancels)},
    {0}};

const struct command cmd_set = {
    .name = "set",
    .arguments = "[RUN] KEY=VALUE... | --cancel [KEY...] [options]",
    .summary = "Change configuration values of a live run",
    .options = options,
    CLI_INTO(struct options, .step = -1),
    .help =
        "\nThese take effect at once: learning rates, polyak, discount, clip_norm, all\n"
        "intervals, the run's length, experience.keep, evaluation.render and its\n"
        "max_to_keep, restart.*, respond_within, memory_limit, and of `settings` the\n"
        "numbers and own_batches. These wait for `brood respawn` of their agent,\n"
        "because only a new process can apply them: the optimizer's other numbers\n"
        "(beta1 and the like), on_nonfinite, and of `settings` policy, execute,\n"
        "clip_by and choose. Other keys are refused, and nothing changes. A length\n"
        "that the run has already passed is refused, too: use `brood stop` to end\n"
        "the run.\n"
        "\nA number that changes at once may be a schedule, '0.9 to 0.99 over 100000':\n"
        "linear over so many environment steps, which count from the run's first.\n"
        "Learning rates and the like follow it in each step, other numbers move in a\n"
        "hundred equal ones, until the key is set again.\n" CLI_WAIT_HELP
        "\nexample: brood set simple_spread-1 "
        "agents.agent_0.optimizer.learning_rate=0.001\n"
        "         brood set simple_spread-1 --cancel defaults.discount\n",
    .takes = CLI_LIVE,
    .run = set_run,
};
