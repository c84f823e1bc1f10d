/* pages.h - whole pages of memory that a fork does not copy.
 *
 * A fork costs about 28 us for each MB of a process's own memory, and every agent begins
 * with one: what is large and lives long, and what a child never looks at before it
 * executes its program, is kept here.
 */
#ifndef COMMON_MEM_PAGES_H
#define COMMON_MEM_PAGES_H

#include <stddef.h>

/* Zeroed; NULL: there is no memory, or len is 0. */
void *pages_map(size_t len_bytes);
void pages_unmap(void *p, size_t len_bytes); /* NULL is fine */

#endif
