/* episodes.h - what a policy takes from step to step, for each episode that clients have named: its
 * state, its last observations (env.stack), and the time of each row.
 *
 * Bounds   so many episodes, and so many bytes of all together; one more takes the place of the
 *          one that was used least recently, which is forgotten.
 * Pointers to an episode are good until the next call of episodes_begin.
 */
#ifndef SUPERVISOR_SERVE_EPISODES_H
#define SUPERVISOR_SERVE_EPISODES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum { EPISODE_NAME = 65 }; /* bytes, with the terminator */

struct episode {
    char name[EPISODE_NAME];
    uint64_t number; /* episode_number */
    size_t rows;
    float *carry;   /* (rows, carry_width) */
    uint8_t *past;  /* (rows, past_bytes) */
    uint64_t *time; /* (rows): steps since the row's episode began */
    size_t bytes;
    TAILQ_ENTRY(episode) entry;
};

struct episodes { /* all-zero but for the first four */
    size_t max, max_bytes;
    size_t carry_width, past_bytes;         /* of a row */
    TAILQ_HEAD(episode_list, episode) list; /* the one used last is first */
    size_t n, bytes;
    int is_ready;
};

void episodes_done(struct episodes *e);
/* Of the draws of an episode of that name: a hash. */
uint64_t episode_number(const char *name);
/* Whether an episode of so many rows can begin. */
int episodes_fit(const struct episodes *e, size_t rows);
/* The episode of that name, which is now the one used last; NULL: there is none. */
struct episode *episodes_find(struct episodes *e, const char *name);
/* Begins an episode of `rows` rows, all zero, in place of one of that name. NULL: it alone takes
 * more than all may. */
struct episode *episodes_begin(struct episodes *e, const char *name, size_t rows);

#endif
