/* tanh_net.h - a network of one tanh layer and one linear layer in double precision, for tests that
 * write an algorithm's update out.
 */
#ifndef TESTS_SUPPORT_TANH_NET_H
#define TESTS_SUPPORT_TANH_NET_H

#include "tests/support/team.h"

#define TANH_NET_MAX    256 /* numbers */
#define TANH_NET_HIDDEN 8   /* units */
#define TANH_NET_PARTS  4

struct tanh_net {
    int in, hidden, out;
    double p[TANH_NET_MAX]; /* W1 (in, hidden), b1 (hidden), W2 (hidden, out), b2 (out) */
};

/* Reads the variables of a member of the team: SCOPE/fully_connected/weights, ... */
void tanh_net_read(struct tanh_net *ret, struct team *t, size_t member,
                   const char *scope);
int tanh_net_size(const struct tanh_net *n);
/* Where each part begins in p, and behind the last one. */
void tanh_net_parts(const struct tanh_net *n, int ret[TANH_NET_PARTS + 1]);
void tanh_net_forward(const struct tanh_net *n, const double *x, double *ret);
/* p += rate (from.p - p) */
void tanh_net_follow(struct tanh_net *n, const struct tanh_net *from, double rate);
/* Ends the program unless both have the same numbers, to 1e-5. */
void tanh_net_check(const char *what, const struct tanh_net *got,
                    const struct tanh_net *want);

#endif
