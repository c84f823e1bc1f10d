/* hostile_node.c - a node that has the run's key and attacks its supervisor.
 *
 *     hostile_node KIND SEED node --connect ... (as brood)
 *
 * It is `brood node`, with the function that sends its messages wrapped by the linker.
 * KIND is an attack of the table below, which is made once, after some answers of its
 * agents, or "mutate": from then on each message may be damaged, repeated, made up or of
 * another kind. Or it is "still MESSAGE": the node stops itself (SIGSTOP) before it sends that
 * message for the SEEDth time.
 */
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/cli.h"
#include "supervisor/net/secure_channel.h"
#include "supervisor/node/node_protocol.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_BEFORE = 5, MUTATE_ONE_OF = 16 };

static const char *kind;
static uint64_t random_state;
static unsigned long seed;
static int n_frames;

int __real_channel_send2(struct channel *c, const void *head, size_t head_len,
                         const void *data, size_t len, struct err *err);
int __wrap_channel_send2(struct channel *c, const void *head, size_t head_len,
                         const void *data, size_t len, struct err *err);

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void post(struct channel *c, enum node_message_kind k, uint32_t worker,
                 uint64_t number, const void *data, size_t len)
{
    uint8_t head[NODE_HEAD_BYTES];

    node_head_pack(head, k, worker, number);
    (void)__real_channel_send2(c, head, sizeof(head), data, len, NULL);
}

/* ---- attacks that are made once ---- */

static void send_giant(struct channel *c)
{
    uint8_t *much = xcalloc(1, NODE_MAX_MESSAGE_BYTES);

    post(c, NODE_FRAME, 0, 0, much, NODE_MAX_MESSAGE_BYTES);
    free(much);
}

static void send_short(struct channel *c)
{
    (void)__real_channel_send2(c, "short", 5, NULL, 0, NULL);
}

static void send_unknown(struct channel *c)
{
    post(c, NODE_KIND_COUNT, 0, 0, NULL, 0);
}

static void send_stored(struct channel *c)
{
    post(c, NODE_STORED, NODE_NO_WORKER, UINT64_MAX, NULL, 0);
}

static void send_answer(struct channel *c)
{
    post(c, NODE_COPY, 0, 0, "a copy", 6);
}

static void send_start(struct channel *c)
{
    post(c, NODE_STARTED, 0, 4711, NULL, 0);
}

static void send_memory(struct channel *c)
{
    post(c, NODE_SHARED, 0, UINT64_MAX - 4, "memory", 6);
}

static void send_stranger(struct channel *c)
{
    post(c, NODE_OUTPUT, NODE_MAX_WORKERS - 1, 0, "I am nobody", 11);
}

static void send_too_far(struct channel *c)
{
    post(c, NODE_OUTPUT, NODE_MAX_WORKERS, 0, "nor I", 5);
}

static void send_order(struct channel *c)
{
    post(c, NODE_KILL, 0, 0, NULL, 0);
}

static void send_hello(struct channel *c)
{
    const struct node_hello hello = {.protocol = 7};
    struct wbuf b = {0};

    node_hello_pack(&b, &hello);
    post(c, NODE_HELLO, NODE_NO_WORKER, 0, b.data, b.len);
    wbuf_done(&b);
}

static void send_exit(struct channel *c)
{
    const struct node_exit e = {.exit_code = 70000, .signal = 99};
    struct wbuf b = {0};

    node_exit_pack(&b, &e);
    post(c, NODE_EXIT, 0, 0, b.data, b.len);
    wbuf_done(&b);
}

static void send_sample(struct channel *c)
{
    post(c, NODE_SAMPLE, 0, 0, "sample", 6);
}

static const struct {
    const char *kind;
    void (*send)(struct channel *c);
} attacks[] = {
    {"giant", send_giant},       {"short", send_short},     {"unknown", send_unknown},
    {"stored", send_stored},     {"answer", send_answer},   {"memory", send_memory},
    {"stranger", send_stranger}, {"too far", send_too_far}, {"order", send_order},
    {"hello", send_hello},       {"exit", send_exit},       {"sample", send_sample},
    {"start", send_start}};

static void attack(struct channel *c)
{
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (strcmp(kind, attacks[i].kind) == 0)
            attacks[i].send(c);
}

/* ---- mutations ---- */

static void send_made_up(struct channel *c)
{
    uint8_t body[64];
    const uint64_t k = 1 + draw(NODE_KIND_COUNT - 1);

    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (uint8_t)draw(256);
    post(c, (enum node_message_kind)k, (uint32_t)draw(5),
         draw(2) ? draw(8) : draw(UINT64_MAX), body, draw(sizeof(body)));
}

static int send_mutated(struct channel *c, const void *head, const uint8_t *data,
                        size_t len)
{
    uint8_t *whole = xmalloc(NODE_HEAD_BYTES + len);
    size_t n = NODE_HEAD_BYTES + len;

    memcpy(whole, head, NODE_HEAD_BYTES);
    if (len > 0)
        memcpy(whole + NODE_HEAD_BYTES, data, len);
    switch (draw(5)) {
    case 0: /* a bit of the head */
        whole[draw(NODE_HEAD_BYTES)] ^= (uint8_t)(1u << draw(8));
        break;
    case 1: /* a bit of the beginning of the body */
        whole[draw(n < 64 ? n : 64)] ^= (uint8_t)(1u << draw(8));
        break;
    case 2: /* cut short */
        n = 1 + draw(n);
        break;
    case 3: /* twice */
        (void)__real_channel_send2(c, whole, n, NULL, 0, NULL);
        break;
    default:
        send_made_up(c);
        break;
    }
    (void)__real_channel_send2(c, whole, n, NULL, 0, NULL);
    free(whole);
    return 0;
}

static void stand_still(enum node_message_kind k)
{
    static const char still[] = "still ";
    static unsigned long n_sent;

    if (strncmp(kind, still, strlen(still)) == 0 &&
        strcmp(kind + strlen(still), node_kind_name(k)) == 0 && ++n_sent == seed)
        (void)raise(SIGSTOP);
}

int __wrap_channel_send2(struct channel *c, const void *head, size_t head_len,
                         const void *data, size_t len, struct err *err)
{
    struct node_message m;
    uint8_t bytes[NODE_HEAD_BYTES];

    CHECK(head_len == sizeof(bytes));
    memcpy(bytes, head, sizeof(bytes));
    CHECK(node_message_parse(&m, bytes, sizeof(bytes), NULL) == 0);
    stand_still(m.kind);
    n_frames += m.kind == NODE_FRAME;
    if (n_frames == FRAMES_BEFORE && m.kind == NODE_FRAME)
        attack(c);
    if (n_frames > FRAMES_BEFORE && strcmp(kind, "mutate") == 0 &&
        draw(MUTATE_ONE_OF) == 0)
        return send_mutated(c, head, data, len);
    return __real_channel_send2(c, head, head_len, data, len, err);
}

int main(int argc, char **argv)
{
    CHECK(argc > 3);
    kind = argv[1];
    seed = strtoul(argv[2], NULL, 10);
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    argv[2] = argv[0];
    return cli_main(argc - 2, argv + 2);
}
