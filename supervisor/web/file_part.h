/* file_part.h - a part of a run's file: GET /file?run=RUN&name=NAME with a Range header.
 *
 * Name    as files_find has it (supervisor/facts/files.h).
 * Answer  206 with at most FILE_PART_BYTES from the range's begin, and where they stand in the
 *         file; of a file that is empty, or not there yet, 200 without any. 416: nothing is there;
 *         404: no such file; 400: no range of one part; 503: it cannot be read, or not in time.
 * Growth  who goes on reading asks for the last bytes that it has once more. Others, or 416, say
 *         that the file was cut or replaced meanwhile, also if it has grown again since: it is read
 *         anew. Nothing is kept here between two requests.
 * Threads loop thread only; a thread reads the file (reading.h).
 */
#ifndef SUPERVISOR_WEB_FILE_PART_H
#define SUPERVISOR_WEB_FILE_PART_H

#include "supervisor/web/reading.h"

#include <stdint.h>

#define FILE_PART_BYTES ((size_t)512 << 10)

struct file_part {
    unsigned status;     /* of HTTP */
    unsigned char *data; /* malloc(); free() */
    size_t len;
    char content_range[80]; /* "": none */
    struct err err;         /* why there is no such part; code 0: there is */

    struct reading reading; /* private from here on */
    char *path, *name, *range;
    void (*on_end)(void *ctx, struct file_part *p);
    void *ctx;
};

/* Begins to read for ctx. on_end is called once on the loop, unless the server ends before or
 * file_part_forget is called; it may take p->data and leave NULL; p itself is gone thereafter.
 * path: of the run; range: the header, NULL: there is none. The texts are copied. */
struct file_part *file_part_begin(struct readings *all, const char *path,
                                  const char *name, const char *range,
                                  void (*on_end)(void *ctx, struct file_part *p),
                                  void *ctx);
/* Nobody waits for it any more. */
void file_part_forget(struct file_part *p);

#endif
