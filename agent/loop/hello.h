/* hello.h - an agent's first message: its version, build and numerics. */
#ifndef AGENT_LOOP_HELLO_H
#define AGENT_LOOP_HELLO_H

#include "common/msg/msg.h"

#include <stddef.h>
#include <stdint.h>

/* The whole notification; send it with msg_end. */
void hello_pack(struct msg_out *out);

#endif
