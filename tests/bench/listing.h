/* listing.h - the updates that listing_agent.c lists the matrix products of, and times. */
#ifndef TESTS_BENCH_LISTING_H
#define TESTS_BENCH_LISTING_H

/* Behind the first ones, which make plans; as many as settings like policy_delay make
 * different from each other. */
#define LISTED_FROM 2
#define LISTED      2
#define TIMED       24 /* from the first on */

#endif
