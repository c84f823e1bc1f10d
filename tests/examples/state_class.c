/* The state of a model as fetched values. The program keeps them; to go back, it feeds
 * them as the variables' initial values and runs their Assign operations. */
#include "agent/nn/nn.h"
#include "tests/examples/example.h"

enum { MAX = 8 };

struct state {
    struct session *session;
    struct variable *vars[MAX];
    size_t n;
    struct tensor values[MAX];
};

static void state_init(struct state *st, struct session *s, struct graph *g)
{
    *st = (struct state){.session = s};
    for (; st->n < MAX && (int)st->n < graph_n_variables(g); st->n++)
        st->vars[st->n] = graph_variable_at(g, (int)st->n);
}

static void state_done(struct state *st)
{
    for (size_t i = 0; i < st->n; i++)
        tensor_free(&st->values[i]);
}

static void state_keep(struct state *st)
{
    struct output reads[MAX];
    struct run_args args = {.fetches = reads, .n_fetches = st->n};

    state_done(st);
    for (size_t i = 0; i < st->n; i++)
        reads[i] = st->vars[i]->read;
    must(session_run(st->session, &args, st->values, &error));
}

/* Assigns all variables in one run, so that nobody sees only some of them changed. */
static void state_go_back(struct state *st)
{
    struct feed feeds[MAX];
    struct operation *assigns[MAX];
    struct run_args args = {
        .feeds = feeds, .n_feeds = st->n, .targets = assigns, .n_targets = st->n};

    for (size_t i = 0; i < st->n; i++) {
        feeds[i] = (struct feed){st->vars[i]->initial_value, st->values[i]};
        assigns[i] = st->vars[i]->initializer;
    }
    must(session_run(st->session, &args, NULL, &error));
}

int main(void)
{
    struct graph *g = graph_new();
    const struct initializer one = ones_initializer(), half = constant_initializer(0.5);
    struct variable *w = get_variable(g, "w", DT_FLOAT, &SHAPE(2), &one, 0);
    struct variable *b = get_variable(g, "b", DT_FLOAT, &SHAPE(2), &half, 0);
    struct operation *train = variable_assign_add(w, b->read, NULL).op;
    struct state state;
    struct session *s;

    must(session_new(&s, g, NULL, &error));
    run(s, global_variables_initializer(g, NULL));
    run(s, train);
    state_init(&state, s, g);
    state_keep(&state);
    print(s, "kept", w->read);
    run(s, train);
    print(s, "trained", w->read);
    state_go_back(&state);
    print(s, "back", w->read);
    state_done(&state);
    session_free(s);
    graph_free(g);
    return 0;
}
