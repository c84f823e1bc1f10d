#include "common/io/signal_process.h"
#include "common/io/tree.h"
#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/web/child.h"
#include "supervisor/web/web.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_AT_A_TIME = 2, LASTS_AT_MOST_MS = 120000 };
#define PICKED_OF  "20"              /* episodes */
#define MAX_SCENES ((size_t)8 << 20) /* bytes of an episode */

struct eval {
    struct evals *evals;
    uint64_t client;
    uint32_t id;
    char folder[64]; /* a temporary one */
    struct child child;
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

static void answer(struct eval *v)
{
    struct web *w = v->evals->web;
    struct web_client *c = web_find_client(w, v->client);
    struct err err = {0};

    if (c == NULL || w->http.is_closing)
        return;
    if (child_says(&v->child, "eval", &err) != NULL &&
        put_scenes(v, web_answer_begin(w, v->id), &err) == 0) {
        web_answer_end(w, c);
        return;
    }
    web_answer_fail(w, c, v->id, &err);
}

/* ---- the child ---- */

static void on_end(struct child *child)
{
    struct eval *v = CHILD_OF(struct eval, child);

    answer(v);
    child_done(child);
    (void)tree_remove(v->folder, NULL);
    LIST_REMOVE(v, entry);
    free(v);
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
                const struct run_place *run, struct err *err)
{
    const char *stochastic = request_get(r, "stochastic"), *pick = request_get(r, "pick");
    uint64_t seed = 0, step = 0;
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    struct eval *v;
    int rc = check_may_start(e, c->serial, err);

    if (rc == 0)
        rc = take_number(r, "seed", &seed, err);
    if (rc == 0)
        rc = take_number(r, "step", &step, err);
    if (rc == 0 && pick != NULL && strcmp(pick, "best") != 0 &&
        strcmp(pick, "worst") != 0)
        rc = err_set(err, ERR_ARG, "pick %.100s: expected best or worst", pick);
    if (rc < 0)
        return rc;
    v = xcalloc(1, sizeof(*v));
    *v = (struct eval){.evals = e, .client = c->serial, .id = r->id, .child.end = on_end};
    (void)snprintf(v->folder, sizeof(v->folder), "/tmp/brood-web-%d-XXXXXX",
                   (int)getpid());
    if (mkdtemp(v->folder) == NULL) {
        rc = err_errno(err, "%s", v->folder);
        free(v);
        return rc;
    }
    if (pick != NULL)
        words_add(&w, "eval", "--episodes", PICKED_OF, "--episode", pick, NULL);
    else
        words_add(&w, "eval", "--episodes", "1", NULL);
    words_add(&w, "--copies", pick != NULL ? "4" : "1", "--seed",
              arena_printf(&arena, "%" PRIu64, seed), "--render",
              arena_printf(&arena, "%s/episode.jsonl", v->folder), "--quiet", NULL);
    if (request_get(r, "step") != NULL)
        words_add(&w, "--checkpoint", arena_printf(&arena, "%" PRIu64, step), NULL);
    if (stochastic != NULL && strcmp(stochastic, "true") == 0)
        words_add(&w, "--stochastic", NULL);
    words_add(&w, "--", run->path, NULL);
    rc = child_begin(&v->child, e->web, run->folder, w.list, LASTS_AT_MOST_MS, err);
    arena_done(&arena);
    if (rc < 0) {
        (void)tree_remove(v->folder, NULL);
        free(v);
        return rc;
    }
    LIST_INSERT_HEAD(&e->list, v, entry);
    return 0;
}

void evals_forget(struct evals *e, uint64_t client)
{
    struct eval *v;

    LIST_FOREACH(v, &e->list, entry)
    if (v->client == client)
        child_kill(&v->child);
}

void evals_close(struct evals *e)
{
    struct eval *v;

    LIST_FOREACH(v, &e->list, entry)
    child_close(&v->child);
}
