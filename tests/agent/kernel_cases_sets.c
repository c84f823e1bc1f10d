/* Equal elements, partitions, and rows put together by number. The text of the outputs says
 * where the elements go. */
#include "tests/agent/kernel_cases.h"

#define NUMBERS "fdilscuw"
#define TELL(op, types, in, attrs, out)                                                  \
    {                                                                                    \
        op, types, in, attrs, out, NULL, NULL, -5, 5, 0, 0                               \
    }

/* The outputs' text gives positions in the first input of type x (-1: zero). */
static void picked(const struct reference *r)
{
    const struct array *x = r->in;

    while (x->letter != 'x')
        x++;
    for (int k = 0; k < r->n_out; k++)
        for (int64_t i = 0; i < r->out[k].n; i++) {
            const int64_t at = (int64_t)r->out[k].v[i];

            r->out[k].v[i] = at < 0 ? 0 : x->v[at];
        }
}

#define PICK(op, in, attrs, out)                                                         \
    {                                                                                    \
        op, NUMBERS "b", in, attrs, out, picked, NULL, -5, 5, 0, 0                       \
    }

const struct kernel_case set_cases[] = {
    TELL("Unique", NUMBERS "b", "x(5)=1,0,1,1,0", NULL, "(2)=1,0 (5)=0,1,0,0,1"),
    TELL("Unique", "f", "l(6)=3,1,3,-2,1,3", "out_idx=@l", "(3)=3,1,-2 (6)=0,1,0,2,1,0"),
    TELL("Unique", "f", "f(5)=-0.0,nan,0,nan,inf", NULL,
         "(4)=0,nan,nan,inf (5)=0,1,0,2,3"),
    TELL("Unique", "f", "d(5)=-0.0,nan,0,nan,inf", NULL,
         "(4)=0,nan,nan,inf (5)=0,1,0,2,3"),
    TELL("Unique", NUMBERS, "x(0)", NULL, "(0) (0)"),
    TELL("UniqueV2", NUMBERS "b", "x(4)=1,1,0,1 l(0)", NULL, "(2)=1,0 (4)=0,0,1,0"),
    TELL("UniqueV2", "f", "i(3,2)=1,2,3,4,1,2 I(1)=0", NULL, "(2,2)=1,2,3,4 (3)=0,1,0"),
    TELL("UniqueV2", "f", "f(2,3)=1,2,1,3,4,3 l(1)=-1", "out_idx=@l",
         "(2,2)=1,2,3,4 (3)=0,1,0"),
    TELL("UniqueV2", NUMBERS, "x(3,0) I(1)=0", NULL, "(1,0) (3)=0,0,0"),
    TELL("UniqueWithCounts", NUMBERS "b", "x(5)=1,0,1,1,1", NULL,
         "(2)=1,0 (5)=0,1,0,0,0 (2)=4,1"),
    TELL("UniqueWithCounts", "f", "i(5)=3,1,3,2,3", "out_idx=@l",
         "(3)=3,1,2 (5)=0,1,0,2,0 (3)=3,1,1"),
    TELL("UniqueWithCountsV2", "f", "d(2,3)=1,2,1,3,4,3 i(1)=1", NULL,
         "(2,2)=1,2,3,4 (3)=0,1,0 (2)=2,1"),
    TELL("ListDiff", NUMBERS "b", "x(4)=1,0,1,0 x(2)=1,1", NULL, "(2)=0,0 (2)=1,3"),
    TELL("ListDiff", "f", "i(6)=1,2,3,4,5,1 i(3)=1,3,5", NULL, "(2)=2,4 (2)=1,3"),
    TELL("ListDiff", "f", "d(3)=nan,0,2 d(3)=nan,-0.0,1", "out_idx=@l",
         "(2)=nan,2 (2)=0,2"),
    TELL("ListDiff", NUMBERS "b", "x(2)=1,1 x(0)", NULL, "(2)=1,1 (2)=0,1"),
    PICK("DynamicPartition", "x(4,2) i(4)=1,0,1,1", "num_partitions=3",
         "(1,2)=2,3 (3,2)=0,1,4,5,6,7 (0,2)"),
    PICK("DynamicPartition", "x(2,2) i(2,2)=0,1,1,0", "num_partitions=2",
         "(2)=0,3 (2)=1,2"),
    PICK("DynamicPartition", "x(2) I=1", "num_partitions=2", "(0,2) (1,2)=0,1"),
    PICK("DynamicPartition", "x(0,2) i(0)", "num_partitions=1", "(0,2)"),
    PICK("ParallelDynamicStitch", "i(2)=3,0 i(1)=1 x(2,2) x(1,2)=0,0", NULL,
         "(4,2)=2,3,-1,-1,-1,-1,0,1"),
    PICK("ParallelDynamicStitch", "i(2)=1,0 x(2)", NULL, "(2)=1,0"),
    /* rows without a number are zero */
    TELL("DynamicStitch", NUMBERS, "i(2)=1,3 i=0 x(2)=5,6 x=7", NULL, "(4)=7,5,0,6"),
    TELL("Where", NUMBERS "b", "x(2,3)=0,1,1,0,0,1", NULL, "(3,2)=0,1,0,2,1,2"),
    TELL("Where", NUMBERS "b", "x(3)=0,0,0", NULL, "(0,1)"),
    TELL("Where", "f", "f(3)=-0.0,nan,-2", NULL, "(2,1)=1,2"),
    TELL("Where", "f", "d(3)=-0.0,nan,0.25", NULL, "(2,1)=1,2"),
    TELL("Where", NUMBERS, "x=1", NULL, "(1,0)"),
    TELL("ComputeAccidentalHits", "f", "l(2,2)=1,5,7,2 l(4)=2,7,2,9", "num_true=2",
         "(2)=1,1 (2)=1,2 (2)=-3.4028234663852886e38,-3.4028234663852886e38"),
    TELL("ComputeAccidentalHits", "f", "l(2,1)=1,5 l(0)", "num_true=1", "(0) (0) (0)"),
    {NULL},
};
