/* folders.h - the folders of runs that are served, and what each is called on the page.
 *
 * Labels   a folder alone has none, and its runs are "NAME". Of several they are "LABEL/NAME": the
 *          label is the name of the folder's owner or, unless all of the owners differ, the end of
 *          its path, without what all have at their end, and with as few parts as tell them apart:
 *          "anna" of anna/runs beside ben/runs, "anna/runs" of anna/runs beside anna/old.
 * Threads  any; what is open does not change.
 */
#ifndef SUPERVISOR_WEB_FOLDERS_H
#define SUPERVISOR_WEB_FOLDERS_H

#include "common/err/err.h"

#include <stddef.h>

struct folder {
    const char *path; /* as it was given; borrowed */
    char *label;      /* "": it is alone */
};

struct folders {
    size_t n;
    struct folder *folder;
};

/* Looks at n folders, of which there is at least one; close them also after an error. Of several,
 * some may be missing, or may not be read, and come later. ERR_ARG: one is a run, or is given twice;
 * ERR_NOT_FOUND, -errno: none of them can be read. */
int folders_open(struct folders *ret, char *const *paths, size_t n, struct err *err);
void folders_close(struct folders *f);

#endif
