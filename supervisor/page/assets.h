/* assets.h - the files of the page, which are part of brood-web (embed.py). */
#ifndef SUPERVISOR_PAGE_ASSETS_H
#define SUPERVISOR_PAGE_ASSETS_H

#include <stddef.h>

struct asset {
    const char *path; /* "/page.css"; the page itself is "/" */
    const char *type;
    const unsigned char *data;
    size_t len;
};

extern const struct asset assets[];
extern const size_t n_assets;

#endif
