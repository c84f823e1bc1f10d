/* brood-web: the server that `brood web` executes. */
#include "common/log/log.h"
#include "supervisor/web/child.h"
#include "supervisor/web/web.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { NICENESS = 5 }; /* of the page, and of episodes: training goes first */

static int prints_json, is_quiet;

static void print_address(const struct web *w)
{
    char url[GUARD_TOKEN_BYTES + 64];
    struct json j = {0};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/#token=%s", w->http.port,
                   w->http.guard.token);
    if (prints_json) {
        json_object(&j);
        json_put_str(&j, "url", url);
        json_put_i64(&j, "port", w->http.port);
        json_put_i64(&j, "pid", getpid());
        json_put_bool(&j, "read_only", w->read_only);
        json_print(&j, stdout);
    } else {
        (void)printf("%s\n", url);
    }
    (void)fflush(stdout);
    if (!is_quiet && !prints_json && getenv("SSH_CONNECTION") != NULL)
        (void)fprintf(stderr,
                      "from your own machine: ssh -N -L %d:127.0.0.1:%d THIS-HOST, then "
                      "open that address there\n",
                      w->http.port, w->http.port);
}

static int fail(const struct err *err, int code)
{
    (void)fprintf(stderr, "brood web: %s\n", err->msg);
    return code;
}

/* brood-web --child-of PID PROGRAM ARGS...: executes a program that is killed when the server,
 * PID, ends, and that has none of its connections. */
static int become_child(char **argv)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != atoi(argv[2]))
        return 1;
    closefrom(STDERR_FILENO + 1);
    (void)execv(argv[3], argv + 3);
    (void)fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
    return 1;
}

static int serve(struct web *w)
{
    struct err err = {0};
    int code;

    /* Several folders are those of several users, who steer their own runs. */
    w->read_only |= w->folders.n > 1;
    if (children_keep_priority(&err) < 0)
        return fail(&err, 1);
    (void)nice(NICENESS);
    code = web_serve(w, print_address, &err) < 0 ? fail(&err, 1) : 0;
    children_end();
    return code;
}

/* Called by `brood web` only, which has checked the options and names a folder. */
int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'}, {"program", required_argument, NULL, 'b'},
        {"read-only", no_argument, NULL, 'r'},  {"json", no_argument, NULL, 'j'},
        {"quiet", no_argument, NULL, 'q'},      {0}};
    struct web w = {.program = "brood"};
    struct err err = {0};
    int c, code;

    if (argc > 3 && strcmp(argv[1], "--child-of") == 0)
        return become_child(argv);
    log_init("brood-web", log_level_wanted(LOG_LEVEL_INFO), STDERR_FILENO);
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            w.http.port = atoi(optarg);
            break;
        case 'b':
            w.program = optarg;
            break;
        case 'r':
            w.read_only = 1;
            break;
        case 'j':
            prints_json = 1;
            break;
        case 'q':
            is_quiet = 1;
            break;
        default:
            return 2;
        }
    }
    if (folders_open(&w.folders, argv + optind, (size_t)(argc - optind), &err) < 0)
        code = fail(&err, err.code == ERR_ARG ? 2 : 3);
    else
        code = serve(&w);
    folders_close(&w.folders);
    return code;
}
