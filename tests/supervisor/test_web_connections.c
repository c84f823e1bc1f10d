/* Connections of the page's server, without libwebsockets: what of it they call is below. */
#include "supervisor/web/connections.h"
#include "tests/support/test_main.h"

#include <libwebsockets.h>
#include <string.h>

enum { N = CONNECTIONS_STRANGERS + 2 };

struct lws {
    void *user;
    int is_closed;
};

static struct lws peers[N];
static struct connections all;
static uv_loop_t loop;

void *lws_get_opaque_user_data(const struct lws *wsi)
{
    return wsi->user;
}

void lws_set_opaque_user_data(struct lws *wsi, void *user)
{
    wsi->user = user;
}

lws_sockfd_type lws_get_socket_fd(struct lws *wsi)
{
    return -1;
}

void lws_set_timeout(struct lws *wsi, enum pending_timeout reason, int seconds)
{
    ck_assert_int_eq(seconds, LWS_TO_KILL_SYNC);
    connections_remove(&all, connections_find(wsi));
    wsi->is_closed = 1;
}

static size_t n_closed(void)
{
    size_t n = 0;

    for (int i = 0; i < N; i++)
        n += (size_t)peers[i].is_closed;
    return n;
}

/* One more than may be there: the loop has not closed its victim yet. Returns that. */
static struct connection *overfill(void)
{
    struct connection *one, *victim = NULL;

    memset(peers, 0, sizeof(peers));
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    all = (struct connections){0};
    connections_init(&all, &loop);
    for (int i = 0; i <= CONNECTIONS_STRANGERS; i++) {
        ck_assert(connections_have_room(&all));
        connections_add(&all, &peers[i]);
    }
    LIST_FOREACH(one, &all.list, entry)
    if (one->state == CONNECTION_ENDED) {
        ck_assert_ptr_null(victim);
        victim = one;
    }
    ck_assert_ptr_nonnull(victim);
    return victim;
}

static void close_all(void)
{
    for (int i = 0; i < N; i++)
        if (peers[i].user != NULL && !peers[i].is_closed)
            connections_remove(&all, peers[i].user);
    ck_assert_uint_eq(all.n, 0);
    ck_assert_uint_eq(all.n_strangers, 0);
    connections_close(&all);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(test_an_ended_connection_that_still_speaks_ends)
{
    struct connection *victim = overfill();

    connections_begin(&all, victim,
                      (enum connection_state)_i); /* its bytes came with the others */
    ck_assert(connections_have_room(&all));
    connections_add(&all, &peers[N - 1]);
    ck_assert(connections_have_room(&all));
    (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(n_closed(), 2);
    ck_assert_uint_eq(all.n_strangers, CONNECTIONS_STRANGERS);
    close_all();
}
END_TEST

START_TEST(test_an_owner_makes_room_and_ends_on_request)
{
    struct connection *owner;

    (void)overfill();
    (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(n_closed(), 1);
    owner = LIST_FIRST(&all.list);
    connections_begin(&all, owner, CONNECTION_OWNER);
    ck_assert_uint_eq(all.n_strangers, CONNECTIONS_STRANGERS - 1);
    connections_add(&all, &peers[N - 1]);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_uint_eq(n_closed(), 1);
    connections_end(&all, owner);
    (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(n_closed(), 2);
    close_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("web_connections");
    TCase *t = tcase_create("web_connections");

    tcase_add_loop_test(t, test_an_ended_connection_that_still_speaks_ends,
                        CONNECTION_SERVED, CONNECTION_OWNER + 1);
    tcase_add_test(t, test_an_owner_makes_room_and_ends_on_request);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
