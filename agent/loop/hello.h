/* hello.h - an agent's first message: its version, build and numerics. */
#ifndef AGENT_LOOP_HELLO_H
#define AGENT_LOOP_HELLO_H

#include "common/msg/msg.h"

#include <stddef.h>
#include <stdint.h>

/* The linker's build id of this program as hex; "unknown" if it has none. Returns buf. */
const char *hello_build_id(char *buf, size_t size);

/* A hash of results that can differ between machines: a dozen products of the matrix
 * library, and functions of libm. The results of our own kernels are the same everywhere
 * and are not included (numerics.h). */
uint64_t hello_fingerprint(void);

/* The whole notification; send it with msg_end. */
void hello_pack(struct msg_out *out);

#endif
