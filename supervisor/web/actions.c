#include "common/mem/words.h"
#include "common/mem/xmalloc.h"
#include "supervisor/web/child.h"
#include "supervisor/web/web.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_AT_A_TIME = 4, MAX_TAGS = 64, LASTS_AT_MOST_MS = 600000 };

struct action {
    struct actions *actions;
    uint64_t client;
    uint32_t id;
    const char *command; /* a row's */
    struct child child;
    LIST_ENTRY(action) entry;
};

struct actions {
    struct web *web;
    size_t n;
    LIST_HEAD(, action) list;
};

struct actions *actions_new(struct web *w)
{
    struct actions *a = xcalloc(1, sizeof(*a));

    a->web = w;
    LIST_INIT(&a->list);
    return a;
}

void actions_free(struct actions *a)
{
    free(a);
}

/* ---- the answer ---- */

static void answer(struct action *one)
{
    struct web *w = one->actions->web;
    struct web_client *c = web_find_client(w, one->client);
    struct err err = {0};
    const char *says = child_says(&one->child, one->command, &err);

    if (c == NULL || w->http.is_closing)
        return;
    if (says == NULL) {
        web_answer_fail(w, c, one->id, &err);
        return;
    }
    json_str(web_answer_begin(w, one->id), says);
    web_answer_end(w, c);
}

static void on_end(struct child *child)
{
    struct action *one = CHILD_OF(struct action, child);
    struct actions *a = one->actions;

    if (!a->web->http.is_closing)
        (void)runs_walk(a->web->runs); /* what has changed is shown at once */
    answer(one);
    child_done(child);
    LIST_REMOVE(one, entry);
    a->n--;
    free(one);
}

/* ---- the commands ---- */

static int add_tags(struct words *w, const struct request *r, const char *path,
                    struct err *err)
{
    const char *tags[MAX_TAGS], *note = request_get(r, "note");
    const size_t n_remove = request_all(r, "remove", tags, MAX_TAGS);
    size_t n_add;

    for (size_t i = 0; i < n_remove && i < MAX_TAGS; i++)
        words_add(w, arena_printf(w->arena, "--remove=%s", tags[i]), NULL);
    if (note != NULL)
        words_add(w, arena_printf(w->arena, "--note=%s", note), NULL);
    words_add(w, "--", path, NULL);
    n_add = request_all(r, "add", tags, MAX_TAGS);
    for (size_t i = 0; i < n_add && i < MAX_TAGS; i++)
        words_add(w, tags[i], NULL);
    if (n_add > MAX_TAGS || n_remove > MAX_TAGS)
        return err_set(err, ERR_LIMIT, "more than %d tags at once", MAX_TAGS);
    return n_add + n_remove > 0 || note != NULL ? 0
                                                : err_set(err, ERR_ARG, "expected a tag");
}

static int add_words(struct words *w, const struct request *r, const char *path,
                     struct err *err)
{
    words_add(w, r->method, NULL);
    if (strcmp(r->method, "tag") == 0)
        return add_tags(w, r, path, err);
    if (strcmp(r->method, "resume") == 0)
        words_add(w, "--detach", NULL);
    words_add(w, "--", path, NULL);
    return 0;
}

int actions_start(struct actions *a, struct web_client *c, const struct request *r,
                  const char *command, const struct run_place *run, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words words = {.arena = &arena};
    struct action *one;
    int rc;

    if (a->n == MAX_AT_A_TIME)
        return err_set(err, ERR_LIMIT, "%d commands are under way already: try again",
                       MAX_AT_A_TIME);
    one = xcalloc(1, sizeof(*one));
    *one = (struct action){.actions = a,
                           .client = c->serial,
                           .id = r->id,
                           .command = command,
                           .child = {.priority = CHILD_AS_RUNS, .end = on_end}};
    rc = add_words(&words, r, run->path, err);
    if (rc == 0)
        rc = child_begin(&one->child, a->web, run->folder, words.list, LASTS_AT_MOST_MS,
                         err);
    arena_done(&arena);
    if (rc < 0) {
        free(one);
        return rc;
    }
    LIST_INSERT_HEAD(&a->list, one, entry);
    a->n++;
    return 0;
}

void actions_close(struct actions *a)
{
    struct action *one;

    LIST_FOREACH(one, &a->list, entry)
    child_close(&one->child);
}
