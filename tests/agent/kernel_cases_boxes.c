/* Four pixels around a place, boxes of images, boxes that overlap, patches: the numbers in the text
 * are TensorFlow's. */
#include "tests/agent/kernel_cases.h"

#define IMAGE   "(1,2,3,1)=1,2,3,4,5,7"
#define RESIZED "f(1,4,2,1)=1,2,3,4,5,6,7,8 "
#define PHOTO   "(1,3,4,1)=1,2,3,4,5,7,9,8,6,4,3,1"
#define THREE   "f(3,4)=0,0,1,1,0.25,0.5,0.75,0.125,0.5,0.5,2,2 i(3)=0,0,0"
#define GRADS   "f(3,2,2,1)=1,2,3,4,5,6,7,8,9,10,11,12 "
#define FIVE                                                                             \
    "f(5,4)=0,0,2,2,0,0,2,1.9,3,3,2,2,0,1,2,3,2.1,2.1,3,3 f(5)=0.5,0.9,0.3,0.8,0.3 "
/* the second box, its corners the other way round, has the first one's place */
#define FLIPPED "f(3,4)=0,0,2,2,2,2,0,0.2,3,3,4,4 f(3)=1,2,0.5 "
#define CUBIC   "(1,4,2,1)=1,2.59375,2.5,4.34375,4,6.09375,4.28125,6.421875"
#define CROPS   "(3,2,2,1)=1,4,6,1,5.25,3.5625,5.75,5.5,8,-1,-1,-1"
#define PATCHES "(1,3,4,1)=1,2,3,4,5,6,7,8,9,10,11,12"

#define TELL(op, types, in, attrs, out)                                                  \
    {                                                                                    \
        op, types, in, attrs, out, NULL, NULL, -3, 3, 8, 0                               \
    }
/* At the edge of the image, or of a nearest pixel, there is no derivative. */
#define EDGE(op, types, in, attrs, out)                                                  \
    {                                                                                    \
        op, types, in, attrs, out, NULL, NULL, -3, 3, 8, CASE_NO_DIFFERENCE              \
    }

const struct kernel_case box_cases[] = {
    TELL("ResizeBicubic", "f", "f" IMAGE " I(2)=4,2", NULL, CUBIC),
    EDGE("ResizeBicubic", "f", "d" IMAGE " I(2)=4,2", NULL,
         CUBIC), /* it computes in float32 */
    EDGE("ResizeBicubic", "f", "u" IMAGE " i(2)=4,2", "align_corners=true",
         "(1,4,2,1)=1,3,1.94338655,4.25784874,3.05661345,5.74215126,4,7"),
    TELL("ResizeBicubic", "f", "f" IMAGE " I(2)=4,2", "half_pixel_centers=true",
         "(1,4,2,1)=0.905109584,2.49592113,1.78477597,3.62137651,3.52909279,5.85307646,"
         "4.40875959,6.97853184"),
    TELL("ResizeBicubicGrad", "fd", RESIZED "x(1,2,3,1)", NULL,
         "(1,2,3,1)=1.5390625,1.9296875,1.625,12.5859375,9.9453125,8.375"),
    TELL("ResizeBicubicGrad", "f", RESIZED "f(1,2,3,1)", "half_pixel_centers=true",
         "(1,2,3,1)=3.01873302,2.06804895,4.68296671,9.50681591,5.55238914,11.1710491"),
    EDGE("CropAndResize", "f", "f" PHOTO " " THREE " I(2)=2,2",
         "extrapolation_value=-1.0", CROPS),
    EDGE("CropAndResize", "f", "d" PHOTO " " THREE " i(2)=2,2",
         "extrapolation_value=-1.0", CROPS),
    EDGE("CropAndResize", "f", "u" PHOTO " " THREE " i(2)=2,2",
         "method=nearest extrapolation_value=-1.0",
         "(3,2,2,1)=1,4,6,1,9,5,3,6,9,-1,-1,-1"),
    EDGE("CropAndResize", "f", "i" PHOTO " " THREE " I(2)=1,3", NULL,
         "(3,1,3,1)=5,8,8,8,6.875,5.75,0,0,0"),
    /* all places between pixels */
    TELL("CropAndResize", "f",
         "f(1,2,2,1)=1,2,3,5 f(1,4)=0.125,0.25,0.75,0.625 i(1)=0 I(2)=2,1", NULL,
         "(1,2,1,1)=1.7421875,3.265625"),
    TELL("CropAndResizeGradImage", "fd", GRADS THREE " I(4)=1,3,4,1", "T=@x",
         "(1,3,4,1)=2.875,2.375,1.25,2,4.375,10.125,7.5,0,5.5,3.25,1.75,4"),
    TELL("CropAndResizeGradImage", "fd", GRADS THREE " I(4)=1,3,4,1",
         "T=@x method=nearest", "(1,3,4,1)=1,0,0,2,6,0,14,0,11,0,7,4"),
    TELL("CropAndResizeGradBoxes", "f", GRADS "f" PHOTO " " THREE, NULL,
         "(3,4)=0,0,0,0,107.5,33,-71,27,0,54,0,0"),
    TELL("CropAndResizeGradBoxes", "f", GRADS "i" PHOTO " " THREE, NULL,
         "(3,4)=0,0,0,0,107.5,33,-71,27,0,54,0,0"),
    TELL("NonMaxSuppression", "f", FIVE "i=4", NULL, "(3)=1,3,2"),
    TELL("NonMaxSuppression", "f", FIVE "i=1", "iou_threshold=1.0", "(1)=1"),
    TELL("NonMaxSuppressionV2", "f", FIVE "I=4 F=0.5", NULL, "(3)=1,3,2"),
    TELL("NonMaxSuppressionV3", "f", FIVE "i=4 f=0.3 f=0.4", NULL, "(2)=1,3"),
    TELL("NonMaxSuppressionV4", "f", FIVE "I=4 F=0.5 F=0.1",
         "pad_to_max_output_size=true", "(4)=1,3,2,0 .=3"),
    TELL("NonMaxSuppressionV4", "f", FIVE "i=4 f=0.5 f=0.1", NULL, "(3)=1,3,2 .=3"),
    TELL("NonMaxSuppression", "f", FLIPPED "i=3", NULL, "(2)=1,2"),
    TELL("NonMaxSuppression", "f", FLIPPED "i=3", "iou_threshold=0.95", "(3)=1,0,2"),
    TELL("NonMaxSuppressionV2", "f",
         "f(3,4)=0,0,1,1,2,2,3,3,4,4,5,5 f(3)=1,1,nan i=1 f=0.5", NULL, "(1)=0"),
    TELL("NonMaxSuppressionV2", "f", "f(0,4) f(0) i=2 f=0.5", NULL, "(0)"),
    TELL("NonMaxSuppressionV5", "f", FLIPPED "i=3 f=0.5 f=0 f=0", NULL,
         "(2)=1,2 (2)=2,0.5 .=2"),
    TELL("NonMaxSuppressionV5", "f", FLIPPED "i=3 f=0.5 f=0 f=0",
         "pad_to_max_output_size=true", "(3)=1,2,0 (3)=2,0.5,0 .=2"),
    TELL("NonMaxSuppressionWithOverlaps", "f",
         "f(3,3)=1,0.2,0.9,0.2,1,0.2,0.9,0.2,1 f(3)=3,2,1 i=3 f=0.5 f=0", NULL,
         "(2)=0,1"),
    /* only files have its gradient */
    EDGE("ExtractImagePatches", "fdiu", "x" PATCHES,
         "ksizes=[1,2,2,1] strides=[1,2,2,1] rates=[1,1,1,1] padding=VALID",
         "(1,1,2,4)=1,2,5,6,3,4,7,8"),
    EDGE("ExtractImagePatches", "f", "x" PATCHES,
         "ksizes=[1,2,2,1] strides=[1,2,3,1] rates=[1,2,2,1] padding=SAME",
         "(1,2,2,4)=0,0,0,6,0,0,7,0,0,6,0,0,7,0,0,0"),
    TELL("UnravelIndex", "il", "x(3)=22,0,5 x(3)=2,3,4", NULL, "(3,3)=1,0,0,2,0,1,2,0,1"),
    TELL("UnravelIndex", "i", "x=7 X(2)=3,4", NULL, "(2)=1,3"),
    TELL("Bitcast", "f", "f(2)=1,-2", "type=@i", "(2)=1065353216,-1073741824"),
    TELL("Bitcast", "f", "i(2)=1,258", "type=@u", "(2,4)=1,0,0,0,2,1,0,0"),
    TELL("Bitcast", "f", "u(2,2)=1,0,2,1", "type=@w", "(2)=1,258"),
    TELL("NextAfter", "f", "f(3)=1,1,0 f(3)=2,0,1", NULL,
         "(3)=1.00000011920928955,0.999999940395355,1.4012984643248171e-45"),
    TELL("NextAfter", "d", "d(2,1)=1,3 d(1)=2", NULL,
         "(2,1)=1.0000000000000002,2.9999999999999996"),
    {NULL},
};
