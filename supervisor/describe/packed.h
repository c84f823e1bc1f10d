/* packed.h - what `brood-agent describe` printed when brood was built: one frame, the answer to
 * the request `describe` (common/msg/protocol.h). embed.py writes its source. */
#ifndef SUPERVISOR_DESCRIBE_PACKED_H
#define SUPERVISOR_DESCRIBE_PACKED_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t described_frame[];
extern const size_t described_frame_bytes;

#endif
