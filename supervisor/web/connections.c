#include "supervisor/web/connections.h"

#include "common/mem/xmalloc.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { LOOK_EVERY_MS = 1000 };

/* How long a connection may be in a state; 0: for ever. A page is served in milliseconds. */
static const uint64_t allowed_ms[] = {[CONNECTION_NEW] = 10000,
                                      [CONNECTION_SERVED] = 20000,
                                      [CONNECTION_ASKED] = 10000,
                                      [CONNECTION_READS] = 60000,
                                      [CONNECTION_OWNER] = 0};

static int is_stranger(enum connection_state state)
{
    return state <= CONNECTION_ASKED;
}

/* ends_ms: when it is to be closed. */
static void end_at(struct connections *c, struct connection *one, uint64_t ends_ms)
{
    if (one->state == CONNECTION_OWNER) { /* back into the list */
        LIST_INSERT_HEAD(&c->list, one, entry);
        c->n++;
    }
    c->n_strangers -= is_stranger(one->state);
    one->state = CONNECTION_ENDED;
    one->ends_ms = ends_ms;
}

/* Closes what has come to its end. Called by the loop and not by libwebsockets, which may be at
 * work on a connection. */
static void on_look(uv_timer_t *timer)
{
    struct connections *c = timer->data;
    const uint64_t now = uv_now(timer->loop);
    struct connection *one = LIST_FIRST(&c->list), *next;

    for (; one != NULL; one = next) {
        next = LIST_NEXT(one, entry);
        if (now < one->ends_ms)
            continue;
        end_at(c, one, UINT64_MAX);
        /* After shutdown libwebsockets does not wait until the other side has read what was
         * sent to it. */
        (void)shutdown(lws_get_socket_fd(one->wsi), SHUT_RDWR);
        lws_set_timeout(one->wsi, PENDING_TIMEOUT_USER_OK,
                        LWS_TO_KILL_SYNC); /* frees it */
    }
    if (LIST_EMPTY(&c->list))
        (void)uv_timer_stop(timer);
}

void connections_init(struct connections *c, uv_loop_t *loop)
{
    LIST_INIT(&c->list);
    (void)uv_timer_init(loop, &c->timer);
    c->timer.data = c;
}

void connections_close(struct connections *c)
{
    uv_close((uv_handle_t *)&c->timer, NULL);
}

int connections_have_room(const struct connections *c)
{
    return c->n_strangers <= CONNECTIONS_STRANGERS &&
           c->n - c->n_strangers < CONNECTIONS_SLACK;
}

/* One of the strangers but the first, which has just come. NULL: there is no other. */
static struct connection *draw_victim(const struct connections *c)
{
    struct connection *one, *fresh = NULL, *any = NULL;
    uint32_t n_fresh = 0, n_any = 0, lots[2];

    LIST_FOREACH(one, &c->list, entry)
    {
        if (one == LIST_FIRST(&c->list) || !is_stranger(one->state))
            continue;
        if (getrandom(lots, sizeof(lots), 0) != (ssize_t)sizeof(lots))
            lots[0] = lots[1] = 0;
        /* The k-th takes the place of the one drawn so far with probability 1/k. */
        if (lots[0] % ++n_any == 0)
            any = one;
        if (one->state == CONNECTION_NEW && lots[1] % ++n_fresh == 0)
            fresh = one;
    }
    return fresh != NULL ? fresh : any;
}

void connections_add(struct connections *c, struct lws *wsi)
{
    struct connection *one = xcalloc(1, sizeof(*one));

    one->wsi = wsi;
    one->state = CONNECTION_NEW;
    LIST_INSERT_HEAD(&c->list, one, entry);
    c->n++;
    c->n_strangers++;
    lws_set_opaque_user_data(wsi, one);
    connections_begin(c, one, CONNECTION_NEW);
    if (c->n_strangers > CONNECTIONS_STRANGERS)
        connections_end(c, draw_victim(c));
}

struct connection *connections_find(struct lws *wsi)
{
    return lws_get_opaque_user_data(wsi);
}

void connections_begin(struct connections *c, struct connection *one,
                       enum connection_state state)
{
    if (one == NULL || one->state == CONNECTION_ENDED)
        return;
    c->n_strangers -= is_stranger(one->state);
    c->n_strangers += is_stranger(state);
    if (state == CONNECTION_OWNER && one->state != CONNECTION_OWNER) {
        LIST_REMOVE(one, entry);
        c->n--;
    }
    one->state = state;
    one->ends_ms =
        allowed_ms[state] > 0 ? uv_now(c->timer.loop) + allowed_ms[state] : UINT64_MAX;
    if (!uv_is_active((uv_handle_t *)&c->timer))
        (void)uv_timer_start(&c->timer, on_look, LOOK_EVERY_MS, LOOK_EVERY_MS);
}

void connections_end(struct connections *c, struct connection *one)
{
    end_at(c, one, 0);
    (void)uv_timer_start(&c->timer, on_look, 0, LOOK_EVERY_MS);
}

void connections_remove(struct connections *c, struct connection *one)
{
    if (one == NULL)
        return;
    c->n_strangers -= is_stranger(one->state);
    if (one->state != CONNECTION_OWNER) {
        LIST_REMOVE(one, entry);
        c->n--;
    }
    free(one);
}
