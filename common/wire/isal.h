/* isal.h - ISA-L's checksums. The library is loaded for the first checksum: most agents
 * and many commands compute none, and loading takes a tenth of their start-up time.
 *
 * Errors   a library that cannot be loaded ends the process with a message that names it.
 * Threads  any.
 */
#ifndef COMMON_WIRE_ISAL_H
#define COMMON_WIRE_ISAL_H

#include <isa-l/crc.h>

struct isal {
    __typeof__(&crc32_iscsi) crc32_iscsi;
    __typeof__(&crc32_gzip_refl) crc32_gzip_refl;
};

const struct isal *isal(void);

#endif
