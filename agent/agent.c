#include "agent/agent.h"

#include "agent/launch.h"
#include "agent/loop/loop.h"
#include "agent/loop/service.h"
#include "agent/plugin/plugin.h"
#include "agent/program.h"
#include "common/confine/confine.h"
#include "common/log/log.h"
#include "common/mem/room.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int send_hello(struct err *err)
{
    struct msg_out out;
    int rc;

    msg_out_init(&out);
    hello_pack(&out);
    rc = loop_send(AGENT_FD_OUT, &out, err);
    msg_out_done(&out);
    return rc;
}

/* An error is ignored: the current request does not depend on this message. */
static void send_progress(void *ctx)
{
    struct msg_out *out = ctx;

    msg_begin_notification(out, "progress");
    msg_map(out, 0);
    (void)loop_send(AGENT_FD_OUT, out, NULL);
}

/* A program takes this process's place; an agent is confined before it handles anything. */
static int look_at_first(void *ctx, const struct msg *request, const uint8_t *data,
                         size_t len, struct err *err)
{
    if (program_is_wanted(request))
        return program_execute(request, data, len, err);
    confine_calls(CONFINE_AGENT);
    return 0;
}

/* Restricts access to files before the first `configure` or `import` is handled. Reading
 * stays allowed for an `import`, whose graph may name files, and for an agent with a
 * prefix: a frozen agent reads its checkpoint. */
static int handle(void *ctx, const struct msg *request, struct msg_out *out)
{
    static int is_confined;
    const int is_import = strcmp(request->method, "import") == 0;

    if (!is_confined && (is_import || strcmp(request->method, "configure") == 0)) {
        is_confined = 1;
        (void)confine_files(is_import || msg_get(&request->body, "prefix") != NULL
                                ? CONFINE_READS
                                : CONFINE_ALL,
                            NULL, NULL);
    }
    return service_handle(ctx, request, out);
}

/* The hello is sent first; everything that takes time comes after it. */
static int serve(const struct algo_ops *algorithm, struct err *err)
{
    struct msg_out progress;
    struct service *s;
    int rc = send_hello(err);

    if (rc < 0)
        return rc;
    s = service_new(algorithm);
    msg_out_init(&progress);
    service_set_progress(s, send_progress, &progress);
    rc = loop_serve(AGENT_FD_IN, AGENT_FD_OUT, look_at_first, handle, s, err);
    service_free(s);
    msg_out_done(&progress);
    return rc;
}

static int exit_code(int r)
{
    if (r == -EPIPE) /* the supervisor has exited, as at end of file */
        return AGENT_EXIT_DONE;
    if (r == ERR_NOMEM || r == -ENOMEM)
        return AGENT_EXIT_TRY_LATER;
    return r < 0 ? AGENT_EXIT_NO_RESPAWN : AGENT_EXIT_DONE;
}

/* If OpenBLAS cannot allocate the buffer for its products (at most 128 MB), it retries
 * for ever. */
#define BLAS_BYTES ((uint64_t)160 << 20)

static int run_agent(const char *parent, const char *name,
                     const struct algo_ops *algorithm)
{
    struct launch l = {.keep_fds = AGENT_FD_COUNT, .hides = 1};
    struct err err = {0};
    int rc = launch_parse_pid(parent, &l.parent, &err);

    if (rc == 0)
        rc = launch_prepare(&l, &err);
    if (rc == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGXFSZ, SIG_IGN); /* writes give EFBIG instead */
        /* an exec by descriptor names the process by that number */
        (void)prctl(PR_SET_NAME, "brood-agent");
        log_init(name, log_level_wanted(LOG_LEVEL_INFO), STDERR_FILENO);
        rc = room_check(BLAS_BYTES, "an agent's arithmetic", &err);
    }
    if (rc == 0)
        rc = serve(algorithm, &err);
    if (rc < 0 && rc != -EPIPE)
        log_error("%s", err.msg);
    return exit_code(rc);
}

static int run_plugin(int argc, char **argv)
{
    struct launch l = {.keep_fds = AGENT_FD_OUT + 1};
    struct err err = {0};
    int rc = argc > 1 ? launch_parse_pid(argv[1], &l.parent, &err)
                      : err_set(&err, ERR_ARG, "no parent process id");

    if (rc == 0)
        rc = launch_prepare(&l, &err);
    if (rc == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        (void)prctl(PR_SET_NAME, "brood-plugin");
        confine_calls(CONFINE_ENVIRONMENT);
        return plugin_main(argc, argv);
    }
    log_error("%s", err.msg);
    return exit_code(rc);
}

int agent_main(int argc, char **argv, const struct algo_ops *algorithm)
{
    if (argc == 4 && strcmp(argv[1], "agent") == 0)
        return run_agent(argv[2], argv[3], algorithm);
    if (argc == 2 && strcmp(argv[1], "describe") == 0)
        return describe_main();
    if (argc > 1 && strcmp(argv[1], "launch") == 0)
        return launch_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "plugin") == 0)
        return run_plugin(argc - 1, argv + 1);
    (void)fputs("brood-agent is started by brood; it does nothing by itself\n", stderr);
    return AGENT_EXIT_NO_RESPAWN;
}
