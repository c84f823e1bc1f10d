/* hello.h - an agent's first message: its version, build and numerics. */
#ifndef AGENT_LOOP_HELLO_H
#define AGENT_LOOP_HELLO_H

#include "common/msg/msg.h"

#include <stddef.h>
#include <stdint.h>

/* The linker's build id of this program as hex; "unknown" if it has none. Returns buf. */
const char *hello_build_id(char *buf, size_t size);

/* A hash of what this machine gives where it may differ from others: a dozen products of
 * the matrix library's, and functions of libm. What kernels of our own compute is the same
 * everywhere and no part of it (numerics.h). */
uint64_t hello_fingerprint(void);

/* The whole notification; send it with msg_end. */
void hello_pack(struct msg_out *out);

#endif
