#include "tests/support/tanh_net.h"

#include "common/err/check.h"

#include <math.h>
#include <stdio.h>

void tanh_net_read(struct tanh_net *ret, struct team *t, size_t member, const char *scope)
{
    static const char *const names[TANH_NET_PARTS] = {
        "fully_connected/weights", "fully_connected/biases", "fully_connected_1/weights",
        "fully_connected_1/biases"};
    int at = 0;

    for (int i = 0; i < TANH_NET_PARTS; i++) {
        char name[128];
        struct tensor x;

        (void)snprintf(name, sizeof(name), "%s/%s", scope, names[i]);
        x = team_variable(t, member, name);
        if (i == 0) {
            ret->in = (int)x.shape.dim[0];
            ret->hidden = (int)x.shape.dim[1];
        } else if (i == 2) {
            ret->out = (int)x.shape.dim[1];
        }
        CHECK(at + tensor_elements(&x) <= TANH_NET_MAX, "%s", name);
        for (int64_t k = 0; k < tensor_elements(&x); k++)
            ret->p[at++] = (double)tensor_f32(&x)[k];
    }
    CHECK(ret->hidden <= TANH_NET_HIDDEN && at == tanh_net_size(ret), "%s", scope);
}

void tanh_net_parts(const struct tanh_net *n, int ret[TANH_NET_PARTS + 1])
{
    ret[0] = 0;
    ret[1] = n->in * n->hidden;
    ret[2] = ret[1] + n->hidden;
    ret[3] = ret[2] + n->hidden * n->out;
    ret[4] = ret[3] + n->out;
}

int tanh_net_size(const struct tanh_net *n)
{
    int at[TANH_NET_PARTS + 1];

    tanh_net_parts(n, at);
    return at[TANH_NET_PARTS];
}

void tanh_net_forward(const struct tanh_net *n, const double *x, double *ret)
{
    double h[TANH_NET_HIDDEN];
    int at[TANH_NET_PARTS + 1];

    tanh_net_parts(n, at);
    for (int j = 0; j < n->hidden; j++) {
        h[j] = n->p[at[1] + j];
        for (int i = 0; i < n->in; i++)
            h[j] += x[i] * n->p[i * n->hidden + j];
        h[j] = tanh(h[j]);
    }
    for (int k = 0; k < n->out; k++) {
        ret[k] = n->p[at[3] + k];
        for (int j = 0; j < n->hidden; j++)
            ret[k] += h[j] * n->p[at[2] + j * n->out + k];
    }
}

void tanh_net_follow(struct tanh_net *n, const struct tanh_net *from, double rate)
{
    for (int i = 0; i < tanh_net_size(n); i++)
        n->p[i] += rate * (from->p[i] - n->p[i]);
}

void tanh_net_check(const char *what, const struct tanh_net *got,
                    const struct tanh_net *want)
{
    for (int i = 0; i < tanh_net_size(want); i++)
        CHECK(fabs(got->p[i] - want->p[i]) < 1e-5, "%s[%d]: %.8g, expected %.8g", what, i,
              got->p[i], want->p[i]);
}
