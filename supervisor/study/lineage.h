/* lineage.h - the rounds of population based training that are over.
 *
 *     round,env_steps,1,2,3,4
 *     1,50000,-21.25,-19.5,,-20.125
 *
 * runs/<study>/rounds.csv has the value of each member after each round, empty for one that
 * failed. Which members became forks, of which, and all settings follow from these values
 * (population.h), so that nothing else is kept. A row is written when all members have come
 * to the end of a round, and before the first fork is made.
 * Runs     a member's run is <member>-s<seed>; after it became a fork after round R,
 *          <member>-r<R>-s<seed>.
 */
#ifndef SUPERVISOR_STUDY_LINEAGE_H
#define SUPERVISOR_STUDY_LINEAGE_H

#include "supervisor/study/study.h"

struct lineage {
    const struct study *study;
    size_t n; /* rounds that are over */

    double *value; /* private from here on: [n, members] */
    size_t *from;
    const char **setting; /* [n + 1, members, keys] */
    struct arena arena;
};

/* Reads the rounds of the study in that folder; no file: none is over. The study is borrowed
 * until lineage_done. ERR_FORMAT, -errno. */
int lineage_read(struct lineage *ret, const struct study *s, const char *dir,
                 struct err *err);
void lineage_done(struct lineage *l); /* all-zero is fine */
/* Adds a round with the values of its members, here and in the file, which is on disk
 * afterwards. */
int lineage_add(struct lineage *l, const char *dir, const double *value, struct err *err);

/* Rounds and members count from 0. The value after a round that is over; NaN: it failed. */
double lineage_value(const struct lineage *l, size_t round, size_t member);
/* The member whose run a member continues after a round that is over: itself, or the one
 * that it becomes a fork of. */
size_t lineage_from(const struct lineage *l, size_t round, size_t member);
/* The settings in a round: round <= l->n. One for each key. */
const char *const *lineage_settings(const struct lineage *l, size_t round, size_t member);
/* Which run a member has in a round, round <= l->n: the number, from 1, of the round
 * after which it last became a fork; 0: its first run. Always 0 for an all-zero lineage,
 * that of a study without pbt. */
size_t lineage_birth(const struct lineage *l, size_t round, size_t member);
/* The environment steps at the end of a round. */
uint64_t lineage_step(const struct study *s, size_t round);

#endif
