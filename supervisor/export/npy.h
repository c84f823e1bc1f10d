/* npy.h - NumPy's files: reads .npy, an array, and writes .npz, a zip archive of them.
 *
 * .npy     versions 1 to 3, little-endian, C order. Strings: |S (bytes: zeros at the end are not
 *          a part) and <U (unicode, to UTF-8).
 * .npz     uncompressed, dated 1980-01-01, so that equal tensors give equal files; up to
 *          4 GiB; strings are |S.
 * Source   numpy/lib/format.py; PKWARE APPNOTE.TXT
 */
#ifndef SUPERVISOR_EXPORT_NPY_H
#define SUPERVISOR_EXPORT_NPY_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

/* Whether the bytes begin as an .npy does. */
int npy_is_one(const struct wbuf *file);
/* ret owns its data. ERR_FORMAT, ERR_LIMIT, ERR_UNSUPPORTED. */
int npy_read(struct tensor *ret, const struct wbuf *file, struct err *err);

struct npz; /* opaque; a file that is being written */

int npz_begin(struct npz **ret, const char *path, struct err *err);
/* Whether npz_add writes float32 in place of that type: bfloat16, which NumPy lacks, and whose
 * values float32 has all. */
int npz_widens(enum dtype dtype);
/* Appends <name>.npy. ERR_UNSUPPORTED: NumPy has no such type; ERR_LIMIT, -errno. */
int npz_add(struct npz *z, const char *name, const struct tensor *value, struct err *err);
/* Ends the file, which is written completely or, if rc is an error, not at all; frees z.
 * Returns rc, or an error. */
int npz_end(struct npz *z, int rc, struct err *err);

#endif
