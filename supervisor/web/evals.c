#include "common/io/signal_process.h"
#include "common/io/tree.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/web/web.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_AT_A_TIME = 2, LASTS_AT_MOST_MS = 120000, STDERR_BYTES = 4096 };
#define MAX_SCENES ((size_t)8 << 20) /* bytes of an episode */

struct eval {
    struct evals *evals;
    uint64_t client;
    uint32_t id;
    char folder[64]; /* a temporary one */
    uv_process_t process;
    uv_pipe_t errors;
    uv_timer_t limit;
    char output[STDERR_BYTES + 1]; /* the end of what it wrote to stderr */
    size_t n_output;
    int open_handles;
    int has_ended, is_late;
    int64_t code;
    int signum;
    LIST_ENTRY(eval) entry;
};

struct evals {
    struct web *web;
    LIST_HEAD(, eval) list;
};

/* Removes the folders of servers that were killed. Their names have the server's pid. */
static void remove_leftovers(void)
{
    DIR *dir = opendir("/tmp");
    struct dirent *d;

    while (dir != NULL && (d = readdir(dir)) != NULL) {
        char path[sizeof(d->d_name) + 8];
        struct stat st;
        int pid, len = 0;

        (void)snprintf(path, sizeof(path), "/tmp/%s", d->d_name);
        if (sscanf(path, "/tmp/brood-web-%d-%n", &pid, &len) == 1 && len > 0 && pid > 0 &&
            !process_exists(pid) && lstat(path, &st) == 0 && st.st_uid == geteuid())
            (void)tree_remove(path, NULL);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

struct evals *evals_new(struct web *w)
{
    struct evals *e = xcalloc(1, sizeof(*e));

    remove_leftovers();
    e->web = w;
    LIST_INIT(&e->list);
    return e;
}

void evals_free(struct evals *e)
{
    free(e);
}

/* ---- the answer ---- */

/* Puts the lines of the file, each a JSON object, as a list. */
static int put_scenes(const struct eval *v, struct json *j, struct err *err)
{
    char path[96];
    struct wbuf text = {0};
    int rc;

    (void)snprintf(path, sizeof(path), "%s/episode.jsonl", v->folder);
    rc = wbuf_read_file(&text, path, MAX_SCENES, err);
    if (rc == 0) {
        const char *p = (const char *)text.data, *end = p + text.len, *line;

        json_array(j);
        for (; p < end && (line = memchr(p, '\n', (size_t)(end - p))) != NULL;
             p = line + 1)
            json_raw(j, p, (size_t)(line - p));
        json_close(j);
    }
    wbuf_done(&text);
    return rc;
}

/* The last line that the child printed to stderr, without "brood eval: ". */
static const char *last_line(struct eval *v)
{
    const char *line, *after;

    v->output[v->n_output] = '\0';
    while (v->n_output > 0 && v->output[v->n_output - 1] == '\n')
        v->output[--v->n_output] = '\0';
    line = strrchr(v->output, '\n');
    line = line != NULL ? line + 1 : v->output;
    after = text_after(line, "brood eval: ");
    return after != NULL ? after : line;
}

static void answer(struct eval *v)
{
    struct web *w = v->evals->web;
    struct web_client *c = web_find_client(w, v->client);
    struct err err = {0};

    if (c == NULL || w->is_closing)
        return;
    if (v->is_late)
        (void)err_set(&err, ERR_TIMEOUT,
                      "the episode took longer than %d s: it was ended",
                      LASTS_AT_MOST_MS / 1000);
    else if (v->code != 0 || v->signum != 0)
        (void)err_set(&err, ERR_STATE, "%s",
                      *last_line(v) != '\0' ? last_line(v) : "brood eval failed");
    else if (put_scenes(v, web_answer_begin(w, v->id), &err) == 0) {
        web_answer_end(w, c);
        return;
    }
    web_answer_fail(w, c, v->id, &err);
}

/* ---- the child ---- */

static void on_closed(uv_handle_t *handle)
{
    struct eval *v = handle->data;

    if (--v->open_handles > 0)
        return;
    answer(v);
    (void)tree_remove(v->folder, NULL);
    LIST_REMOVE(v, entry);
    free(v);
}

static void close_all(struct eval *v)
{
    if (v->has_ended)
        return;
    v->has_ended = 1;
    uv_close((uv_handle_t *)&v->process, on_closed);
    uv_close((uv_handle_t *)&v->errors, on_closed);
    uv_close((uv_handle_t *)&v->limit, on_closed);
}

static void on_exit_status(uv_process_t *process, int64_t code, int signum)
{
    struct eval *v = process->data;
    ssize_t n;
    int fd;

    v->code = code;
    v->signum = signum;
    /* its last output may not have been read yet */
    if (uv_fileno((uv_handle_t *)&v->errors, &fd) == 0)
        while (v->n_output < STDERR_BYTES &&
               (n = read(fd, v->output + v->n_output, STDERR_BYTES - v->n_output)) > 0)
            v->n_output += (size_t)n;
    close_all(v);
}

static void on_limit(uv_timer_t *timer)
{
    struct eval *v = timer->data;

    v->is_late = 1;
    (void)signal_process(v->process.pid, SIGKILL);
}

/* Makes room by dropping the older half of the output. */
static void make_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct eval *v = handle->data;

    if (v->n_output > STDERR_BYTES / 2) {
        memmove(v->output, v->output + v->n_output / 2, v->n_output - v->n_output / 2);
        v->n_output -= v->n_output / 2;
    }
    *ret = uv_buf_init(v->output + v->n_output, (unsigned)(STDERR_BYTES - v->n_output));
}

static void on_errors(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct eval *v = stream->data;

    if (n > 0)
        v->n_output += (size_t)n;
    else if (n < 0)
        (void)uv_read_stop(stream);
}

static int spawn(struct eval *v, char **args, struct err *err)
{
    uv_loop_t *loop = &v->evals->web->loop;
    uv_stdio_container_t io[3] = {{.flags = UV_IGNORE},
                                  {.flags = UV_IGNORE},
                                  {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
                                   .data = {.stream = (uv_stream_t *)&v->errors}}};
    const uv_process_options_t options = {.exit_cb = on_exit_status,
                                          .file = args[0],
                                          .args = args,
                                          .stdio_count = 3,
                                          .stdio = io};
    int rc;

    (void)uv_pipe_init(loop, &v->errors, 0);
    (void)uv_timer_init(loop, &v->limit);
    v->process.data = v->errors.data = v->limit.data = v;
    v->open_handles = 3;
    rc = uv_spawn(loop, &v->process, &options);
    if (rc < 0)
        return err_set(err, ERR_STATE, "%s: %s", args[0], uv_strerror(rc));
    (void)uv_read_start((uv_stream_t *)&v->errors, make_room, on_errors);
    (void)uv_timer_start(&v->limit, on_limit, LASTS_AT_MOST_MS, 0);
    return 0;
}

static int check_may_start(const struct evals *e, uint64_t client, struct err *err)
{
    const struct eval *v;
    int n = 0;

    LIST_FOREACH(v, &e->list, entry)
    {
        n++;
        if (v->client == client)
            return err_set(err, ERR_LIMIT, "an episode is being played already");
    }
    return n < MAX_AT_A_TIME
               ? 0
               : err_set(err, ERR_LIMIT,
                         "%d episodes are being played already: try again", n);
}

/* Leaves *ret alone if the key is missing. */
static int take_number(const struct request *r, const char *key, uint64_t *ret,
                       struct err *err)
{
    const char *text = request_get(r, key);

    return text == NULL || request_u64(r, key, ret)
               ? 0
               : err_set(err, ERR_ARG, "%s %.100s: expected a whole number", key, text);
}

int evals_start(struct evals *e, struct web_client *c, const struct request *r,
                const char *path, struct err *err)
{
    const char *stochastic = request_get(r, "stochastic");
    uint64_t seed = 0, step = 0;
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    struct eval *v;
    int rc = check_may_start(e, c->serial, err);

    if (rc == 0)
        rc = take_number(r, "seed", &seed, err);
    if (rc == 0)
        rc = take_number(r, "step", &step, err);
    if (rc < 0)
        return rc;
    v = xcalloc(1, sizeof(*v));
    *v = (struct eval){.evals = e, .client = c->serial, .id = r->id};
    (void)snprintf(v->folder, sizeof(v->folder), "/tmp/brood-web-%d-XXXXXX",
                   (int)getpid());
    if (mkdtemp(v->folder) == NULL) {
        rc = err_errno(err, "%s", v->folder);
        free(v);
        return rc;
    }
    /* brood-web --child-of: the kernel kills the child when this server dies. */
    words_add(&w, "/proc/self/exe", "--child-of",
              arena_printf(&arena, "%d", (int)getpid()), e->web->program, "eval",
              "--episodes", "1", "--copies", "1", "--seed",
              arena_printf(&arena, "%" PRIu64, seed), "--render",
              arena_printf(&arena, "%s/episode.jsonl", v->folder), "--quiet", NULL);
    if (request_get(r, "step") != NULL)
        words_add(&w, "--checkpoint", arena_printf(&arena, "%" PRIu64, step), NULL);
    if (stochastic != NULL && strcmp(stochastic, "true") == 0)
        words_add(&w, "--stochastic", NULL);
    words_add(&w, "--", path, NULL);
    LIST_INSERT_HEAD(&e->list, v, entry);
    rc = spawn(v, words_argv(&w), err);
    arena_done(&arena);
    if (rc < 0) {
        v->client = 0; /* the caller sends the error */
        close_all(v);
    }
    return rc;
}

void evals_forget(struct evals *e, uint64_t client)
{
    struct eval *v;

    LIST_FOREACH(v, &e->list, entry)
    if (v->client == client && !v->has_ended)
        (void)signal_process(v->process.pid, SIGKILL);
}

void evals_close(struct evals *e)
{
    struct eval *v;

    LIST_FOREACH(v, &e->list, entry)
    {
        if (!v->has_ended)
            (void)signal_process(v->process.pid, SIGKILL);
        close_all(v);
    }
}
