/* Arbitrary messages between supervisor and node: each is parsed or refused, and nothing
 * is read beyond its end. */
#include "common/err/check.h"
#include "supervisor/node/node_programs.h"
#include "supervisor/node/node_protocol.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void parse_bodies(const struct node_message *m)
{
    struct node_hello hello;
    struct node_open open;
    struct node_exit exit;
    struct node_sample sample;
    struct node_program_piece piece;
    struct err told;

    if (node_hello_parse(&hello, m, NULL) == 0)
        CHECK(strlen(hello.host) < sizeof(hello.host) &&
              strlen(hello.identity.run) < sizeof(hello.identity.run));
    if (node_open_parse(&open, m, NULL) == 0)
        CHECK(open.name[0] != '\0' && open.member <= open.members);
    if (node_exit_parse(&exit, m, NULL) == 0)
        CHECK(exit.signal >= 0 && exit.signal <= 64);
    if (node_program_piece_parse(&piece, m, NULL) == 0)
        CHECK(piece.name_len == 0 || (piece.name[0] != '/' && piece.name[0] != '\0'));
    (void)node_sample_parse(&sample, m, NULL);
    if (node_error_parse(&told, m, NULL) == 0)
        CHECK(told.code < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct node_message m;

    if (node_message_parse(&m, data, size, NULL) == 0)
        parse_bodies(&m);
    return 0;
}
