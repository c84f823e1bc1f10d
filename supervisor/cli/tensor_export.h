/* tensor_export.h - writes a checkpoint's tensors in the formats of other programs.
 *
 * safetensors  u64 length of the header; the header, JSON: name -> {dtype, shape,
 *              data_offsets from the end of the header}, padded with blanks to a
 *              multiple of 8; the tensors one after another in that order.
 * npz          npy.h; up to 4 GiB.
 * Both         little-endian, row-major; the file is written completely or not at all; one
 *              tensor is in memory at a time. A dtype that the format lacks is refused, and
 *              the message names it.
 * Errors       ERR_UNSUPPORTED, ERR_LIMIT, those of reading the checkpoint, -errno.
 * Source       github.com/huggingface/safetensors, README "Format"
 */
#ifndef SUPERVISOR_CLI_TENSOR_EXPORT_H
#define SUPERVISOR_CLI_TENSOR_EXPORT_H

#include "common/ckpt/bundle.h"

struct tensor_export { /* all borrowed */
    struct bundle_reader *from;
    const struct bundle_entry *const *entries;
    size_t n;
    const char *path; /* the file to write; an existing one is replaced */
};

int tensor_export_safetensors(const struct tensor_export *x, struct err *err);
int tensor_export_npz(const struct tensor_export *x, struct err *err);

#endif
