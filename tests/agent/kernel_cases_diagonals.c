/* Diagonals of matrices, bands of them, and matrices made of them. The text of the outputs
 * gives positions in the first input of type x (-1: zero). */
#include "tests/agent/kernel_cases.h"

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

static void picked_of_two(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++) {
        const int64_t at = (int64_t)r->out->v[i], n = r->in[0].n;

        r->out->v[i] = at < n ? r->in[0].v[at] : r->in[1].v[at - n];
    }
}

#define PICK(op, in, attrs, out)                                                         \
    {                                                                                    \
        op, "fdil", in, attrs, out, picked, NULL, -5, 5, 0, 0                            \
    }
/* positions in the matrix, then in the diagonal */
#define SET(op, in, out)                                                                 \
    {                                                                                    \
        op, "fdil", in, NULL, out, picked_of_two, NULL, -5, 5, 0, 0                      \
    }
/* TensorFlow has no gradient of the padding; the rows with padding of type d have it checked
 * for the diagonals. */
#define PADDED(op, in, attrs, out)                                                       \
    {                                                                                    \
        op, "fdil", in, attrs, out, picked, NULL, -5, 5, 0, CASE_NO_DIFFERENCE           \
    }
#define PADDED_D(op, in, attrs, out)                                                     \
    {                                                                                    \
        op, "d", in, attrs, out, picked, NULL, -5, 5, 0, 0                               \
    }
#define TELL(op, in, attrs, out)                                                         \
    {                                                                                    \
        op, "f", in, attrs, out, NULL, NULL, -5, 5, 0, 0                                 \
    }

const struct kernel_case diagonal_cases[] = {
    PICK("Diag", "x(2)", NULL, "(2,2)=0,-1,-1,1"),
    PICK("Diag", "x(1,2)", NULL, "(1,2,1,2)=0,-1,-1,1"),
    PICK("DiagPart", "x(3,3)", NULL, "(3)=0,4,8"),
    PICK("DiagPart", "x(2,1,2,1)", NULL, "(2,1)=0,3"),
    PICK("MatrixDiag", "x(2,2)", NULL, "(2,2,2)=0,-1,-1,1,2,-1,-1,3"),
    PICK("BatchMatrixDiag", "x(2)", NULL, "(2,2)=0,-1,-1,1"),
    PADDED("MatrixDiagV2", "x(2) I=1 I=-1 I=-1 x=0", NULL,
           "(3,3)=-1,0,-1,-1,-1,1,-1,-1,-1"),
    PADDED_D("MatrixDiagV2", "x(2) I=1 I=-1 I=-1 d=0", NULL,
             "(3,3)=-1,0,-1,-1,-1,1,-1,-1,-1"),
    PADDED("MatrixDiagV2", "x(2) i=-1 i=3 i=2 x=0", NULL, "(3,2)=-1,-1,0,-1,-1,1"),
    PADDED_D("MatrixDiagV2", "x(2) i=-1 i=3 i=2 d=0", NULL, "(3,2)=-1,-1,0,-1,-1,1"),
    PADDED("MatrixDiagV2", "x(2,2) i(2)=-1,0 i=-1 i=-1 x=0", NULL, "(2,2)=0,-1,2,1"),
    PADDED_D("MatrixDiagV2", "x(2,2) i(2)=-1,0 i=-1 i=-1 d=0", NULL, "(2,2)=0,-1,2,1"),
    PADDED("MatrixDiagV3", "x(3,3) I(2)=-1,1 I=-1 I=-1 x=0", NULL,
           "(3,3)=3,1,-1,6,4,2,-1,7,5"),
    PADDED_D("MatrixDiagV3", "x(3,3) I(2)=-1,1 I=-1 I=-1 d=0", NULL,
             "(3,3)=3,1,-1,6,4,2,-1,7,5"),
    PADDED("MatrixDiagV3", "x(3,3) I(2)=-1,1 I=-1 I=-1 x=0", "align=LEFT_RIGHT",
           "(3,3)=3,0,-1,7,4,1,-1,8,5"),
    PADDED_D("MatrixDiagV3", "x(3,3) I(2)=-1,1 I=-1 I=-1 d=0", "align=LEFT_RIGHT",
             "(3,3)=3,0,-1,7,4,1,-1,8,5"),
    TELL("MatrixDiagV3", "f(1)=5 I=0 I=2 I=1 f=7", NULL, "(2,1)=5,7"),
    TELL("MatrixDiagV2", "i(1)=5 i=-1 i=-1 i=-1 i=9", NULL, "(2,2)=9,9,5,9"),
    PICK("MatrixDiagPart", "x(2,2,3)", NULL, "(2,2)=0,4,6,10"),
    PICK("MatrixDiagPart", "x(3,3)", NULL, "(3)=0,4,8"),
    PICK("BatchMatrixDiagPart", "x(2,2)", NULL, "(2)=0,3"),
    PADDED("MatrixDiagPartV2", "x(2,3) I=1 x=0", NULL, "(2)=1,5"),
    PADDED_D("MatrixDiagPartV2", "x(2,3) I=1 d=0", NULL, "(2)=1,5"),
    PADDED("MatrixDiagPartV2", "x(2,3) i(2)=-1,1 x=0", NULL, "(3,2)=1,5,0,4,3,-1"),
    PADDED_D("MatrixDiagPartV2", "x(2,3) i(2)=-1,1 d=0", NULL, "(3,2)=1,5,0,4,3,-1"),
    PADDED("MatrixDiagPartV3", "x(3,3) I(2)=-1,1 x=0", NULL, "(3,3)=-1,1,5,0,4,8,3,7,-1"),
    PADDED_D("MatrixDiagPartV3", "x(3,3) I(2)=-1,1 d=0", NULL,
             "(3,3)=-1,1,5,0,4,8,3,7,-1"),
    PADDED("MatrixDiagPartV3", "x(3,3) I(1)=-2 x=0", "align=LEFT_LEFT", "(1)=6"),
    PADDED_D("MatrixDiagPartV3", "x(3,3) I(1)=-2 d=0", "align=LEFT_LEFT", "(1)=6"),
    PADDED("MatrixDiagPartV3", "x(3,3) I(2)=1,2 x=0", "align=RIGHT_RIGHT",
           "(2,2)=-1,2,1,5"),
    PADDED_D("MatrixDiagPartV3", "x(3,3) I(2)=1,2 d=0", "align=RIGHT_RIGHT",
             "(2,2)=-1,2,1,5"),
    TELL("MatrixDiagPartV3", "f(2,2)=1,2,3,4 I(2)=-1,0 f=9", "align=RIGHT_RIGHT",
         "(2,2)=1,4,9,3"),
    TELL("MatrixSetDiag", "f(2,3)=1,2,3,4,5,6 f(2)=7,8", NULL, "(2,3)=7,2,3,4,8,6"),
    SET("MatrixSetDiag", "x(2,2) x(2)", "(2,2)=4,1,2,5"),
    SET("MatrixSetDiag", "x(2,3) x(2)", "(2,3)=6,1,2,3,7,5"),
    SET("MatrixSetDiagV2", "x(2,2) x(2,2) I(2)=0,1", "(2,2)=6,4,2,7"),
    SET("MatrixSetDiagV3", "x(2,2) x(2,2) I(2)=0,1", "(2,2)=6,5,2,7"),
    TELL("BatchMatrixSetDiag", "f(1,2,2)=1,2,3,4 f(1,2)=7,8", NULL, "(1,2,2)=7,2,3,8"),
    TELL("MatrixSetDiagV2", "f(2,2)=1,2,3,4 f(1)=7 i=-1", NULL, "(2,2)=1,2,7,4"),
    TELL("MatrixSetDiagV2", "f(2,2)=1,2,3,4 f(2,2)=7,0,8,9 I(2)=0,1", NULL,
         "(2,2)=8,7,3,9"),
    TELL("MatrixSetDiagV3", "f(2,2)=1,2,3,4 f(2,2)=0,7,8,9 I(2)=0,1", NULL,
         "(2,2)=8,7,3,9"),
    PICK("MatrixBandPart", "x(3,3) L=1 l=0", NULL, "(3,3)=0,-1,-1,3,4,-1,-1,7,8"),
    PICK("MatrixBandPart", "x(1,2,3) i=0 i=-1", NULL, "(1,2,3)=0,1,2,-1,4,5"),
    PICK("BatchMatrixBandPart", "x(2,2) l=-1 l=0", NULL, "(2,2)=0,-1,2,3"),
    {NULL},
};
