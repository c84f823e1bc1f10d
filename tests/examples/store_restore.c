/* Going back to earlier values without the disk: zeros, sixes, zeros. */
#include "agent/nn/nn.h"
#include "agent/session/memory.h"
#include "tests/examples/example.h"

int main(void)
{
    struct graph *g = graph_new();
    const struct initializer zero = zeros_initializer(), six = constant_initializer(6);
    struct variable *v =
        get_variable(g, "v", DT_FLOAT, &SHAPE(3), &zero, VARIABLE_NOT_TRAINABLE);
    struct output sixes = six.build(g, &six, DT_FLOAT, &SHAPE(3));
    struct operation *change = variable_assign(v, sixes, NULL).op;
    struct operation *init = global_variables_initializer(g, NULL);
    struct session *s;
    struct memory *before;

    must(session_new(&s, g, NULL, &error));
    run(s, init);
    print(s, "v", v->read);

    must(memory_new(&before, s, NULL, 0, &error)); /* of all variables */
    memory_store(before);
    run(s, change);
    print(s, "v", v->read);

    must(memory_restore(before, &error));
    print(s, "v", v->read);

    memory_free(before);
    session_free(s);
    graph_free(g);
    return 0;
}
