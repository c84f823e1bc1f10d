/* pages.h - whole pages of memory that fork does not map into the child.
 *
 * fork takes about 28 us per MB of private memory, and every agent's start needs one. Large,
 * long-lived data that a child does not use before exec is kept here.
 */
#ifndef COMMON_MEM_PAGES_H
#define COMMON_MEM_PAGES_H

#include <stddef.h>

/* Zeroed; NULL if there is not enough memory, or if the length is 0. */
void *pages_map(size_t len_bytes);
void pages_unmap(void *p, size_t len_bytes); /* NULL is fine */

#endif
