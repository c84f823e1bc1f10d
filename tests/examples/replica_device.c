/* Variables on two parameter servers, and two worker processes that see each other's
 * updates at once. The workers share the parameter servers' memory; a worker's local
 * variable is private to it. Killing a worker does not damage the shared variables. */
#include "agent/nn/nn.h"
#include "common/io/signal_process.h"
#include "tests/examples/example.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PS_TASKS = 2, WORKERS = 2, PS_BYTES = 1 << 12 };

static void *memory[PS_TASKS];

struct model {
    struct graph *g;
    struct session *s;
    struct variable *weights, *bias, *steps;
    struct operation *step, *local_init;
};

static struct operation *add_one(struct variable *v)
{
    struct graph *g = operation_graph(v->ref.op);

    return variable_assign_add(v, ones(g, DT_FLOAT, &v->shape, NULL), NULL).op;
}

/* Every process builds the same graph after the fork. is_ready: another session has
 * already laid out the parameter servers' memory. */
static void model_init(struct model *m, int is_ready)
{
    const struct initializer zero = zeros_initializer();
    const struct device_memory devices[PS_TASKS] = {
        {"/job:ps/task:0", memory[0], PS_BYTES, is_ready},
        {"/job:ps/task:1", memory[1], PS_BYTES, is_ready}};
    const struct session_options options = {.devices = devices, .n_devices = PS_TASKS};
    struct operation *parts[3];

    m->g = graph_new();
    /* variables are assigned to the tasks in turn */
    replica_device_enter(m->g, PS_TASKS, NULL);
    m->weights = get_variable(m->g, "weights", DT_FLOAT, &SHAPE(2), &zero, 0);
    m->bias = get_variable(m->g, "bias", DT_FLOAT, &SHAPE(1), &zero, 0);
    device_leave(m->g);
    m->steps = get_variable(m->g, "steps", DT_FLOAT, &SHAPE(1), &zero, VARIABLE_LOCAL);
    parts[0] = add_one(m->weights);
    parts[1] = add_one(m->bias);
    parts[2] = add_one(m->steps);
    m->step = group(m->g, parts, 3, "step");
    m->local_init = local_variables_initializer(m->g, NULL);
    must(session_new(&m->s, m->g, &options, &error));
}

static void model_done(struct model *m)
{
    session_free(m->s);
    graph_free(m->g);
}

/* Makes a step whenever its turn comes, and prints the values that it sees. */
static _Noreturn void work(int number, const int turn[2], const int next[2])
{
    struct model m;
    char byte;

    model_init(&m, 1);
    run(m.s, m.local_init);
    while (read(turn[0], &byte, 1) == 1) {
        run(m.s, m.step);
        (void)printf("worker %d:\n", number);
        print(m.s, "  weights", m.weights->read);
        print(m.s, "  bias", m.bias->read);
        print(m.s, "  own steps", m.steps->read);
        (void)fflush(stdout);
        if (write(next[1], "x", 1) != 1)
            break;
    }
    model_done(&m);
    exit(0);
}

int main(void)
{
    int turn[WORKERS][2], done[2];
    pid_t pid[WORKERS];
    struct model m;
    char byte;

    for (int i = 0; i < PS_TASKS; i++)
        memory[i] = mmap(NULL, PS_BYTES, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(pipe(done));
    for (int i = 0; i < WORKERS; i++)
        must(pipe(turn[i]));
    model_init(&m, 0); /* this process is both parameter servers */
    run(m.s, global_variables_initializer(m.g, NULL));
    (void)fflush(stdout);
    for (int i = 0; i < WORKERS; i++) {
        pid[i] = fork();
        must(pid[i] < 0 ? -1 : 0);
        if (pid[i] == 0) {
            for (int k = 0; k < WORKERS; k++)
                (void)close(turn[k][1]);
            work(i, turn[i], done);
        }
    }
    for (int i = 0; i < 4; i++) {
        must(write(turn[i % WORKERS][1], "x", 1) == 1 ? 0 : -1);
        must(read(done[0], &byte, 1) == 1 ? 0 : -1);
    }
    (void)signal_process(pid[0], SIGKILL);
    (void)waitpid(pid[0], NULL, 0);
    (void)close(turn[1][1]);
    (void)waitpid(pid[1], NULL, 0);
    (void)printf("parameter servers:\n");
    print(m.s, "  weights", m.weights->read);
    print(m.s, "  bias", m.bias->read);
    model_done(&m);
    return 0;
}
