/* listing.h - of which updates listing_agent.c lists the matrix products, and which it
 * times. */
#ifndef TESTS_BENCH_LISTING_H
#define TESTS_BENCH_LISTING_H

/* The first updates make plans and are not listed. Two are, because with settings like
 * policy_delay consecutive updates differ. */
#define LISTED_FROM 2
#define LISTED      2
#define TIMED       24 /* from the first update on */

#endif
