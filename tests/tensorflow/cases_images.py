"""Convolutions, pools, batch normalisation, blocks and sizes of images: agent/ops/conv.c,
depthwise.c, pool.c, norm.c, space.c, resize.c, dilation.c."""
from cases import case, feed, integers, normal, tf, uniform

# ---- convolutions ----

CONVOLUTIONS = {
    "valid": dict(strides=[1, 1, 1, 1], padding="VALID"),
    "same": dict(strides=[1, 1, 1, 1], padding="SAME"),
    "strided": dict(strides=[1, 2, 3, 1], padding="SAME"),
    "dilated": dict(strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 1, 1]),
    "explicit": dict(strides=[1, 2, 1, 1], padding=[[0, 0], [1, 2], [3, 0], [0, 0]]),
}
for name, options in CONVOLUTIONS.items():
    @case(name=f"conv2d_{name}", floor=4e-6,
          gradients=name != "dilated")  # TensorFlow has those on other devices only
    def conv2d(options=options):
        return tf.nn.conv2d(feed(normal(2, 7, 6, 3)), feed(normal(3, 2, 3, 4)), **options)


@case(tolerance=1e-12)
def conv2d_double():
    return tf.nn.conv2d(feed(normal(2, 5, 5, 2, dtype="float64")),
                        feed(normal(3, 3, 2, 3, dtype="float64")), strides=[1, 1, 1, 1],
                        padding="SAME")


@case(floor=4e-6)
def conv2d_no_images():
    return tf.nn.conv2d(feed(normal(0, 5, 5, 2), shape=[None, 5, 5, 2]),
                        feed(normal(3, 3, 2, 3)), strides=[1, 1, 1, 1], padding="SAME")


@case(floor=4e-6)
def conv2d_unknown_size():
    return tf.nn.conv2d(feed(normal(2, 5, 6, 2), shape=[None, None, None, 2]),
                        feed(normal(3, 3, 2, 3)), strides=[1, 2, 2, 1], padding="SAME")


for name, padding, y in [("same", "SAME", (2, 4, 3, 4)), ("valid", "VALID", (2, 3, 3, 4))]:
    @case(name=f"conv2d_transpose_{name}", floor=4e-6)
    def transposed(padding=padding, y=y):
        return tf.nn.conv2d_transpose(feed(normal(*y)), feed(normal(3, 2, 3, 4)),
                                      output_shape=[2, 7, 6, 3], strides=[1, 2, 2, 1],
                                      padding=padding)


@case(floor=2e-5)
def conv2d_gradient_of_gradient():
    x, w = feed(normal(2, 5, 5, 2)), feed(normal(3, 3, 2, 3))
    y = tf.nn.conv2d(x, w, strides=[1, 2, 2, 1], padding="SAME")
    return tf.gradients(tf.reduce_sum(y * y), [x, w])


@case(floor=4e-6)
def conv1d():
    return tf.nn.conv1d(feed(normal(2, 9, 3)), feed(normal(4, 3, 5)), stride=2, padding="SAME")


for name, rate in [("once", [1, 1]), ("dilated", [2, 2])]:
    @case(name=f"depthwise_{name}", floor=1e-5)
    def depthwise(rate=rate):
        return tf.nn.depthwise_conv2d(feed(normal(2, 7, 6, 3)), feed(normal(3, 2, 3, 2)),
                                      strides=[1, 1, 1, 1], padding="SAME", rate=rate)


@case(floor=4e-6)
def depthwise_strided():
    return tf.nn.depthwise_conv2d(feed(normal(2, 7, 6, 3)), feed(normal(3, 2, 3, 1)),
                                  strides=[1, 2, 2, 1], padding="VALID")


@case(floor=4e-6)
def separable():
    return tf.nn.separable_conv2d(feed(normal(2, 6, 6, 3)), feed(normal(3, 3, 3, 2)),
                                  feed(normal(1, 1, 6, 4)), strides=[1, 1, 1, 1],
                                  padding="SAME")


@case(floor=4e-6)
def atrous():
    return tf.nn.atrous_conv2d(feed(normal(2, 7, 8, 2)), feed(normal(3, 3, 2, 3)), rate=2,
                               padding="SAME")


for name, options in {"valid": dict(strides=[1, 1, 1, 1, 1], padding="VALID"),
                      "same": dict(strides=[1, 2, 1, 2, 1], padding="SAME")}.items():
    @case(name=f"conv3d_{name}", floor=4e-6)
    def conv3d(options=options):
        return tf.nn.conv3d(feed(normal(2, 4, 5, 6, 2)), feed(normal(2, 3, 2, 2, 3)), **options)


@case(floor=4e-6)
def conv3d_transpose():
    return tf.nn.conv3d_transpose(feed(normal(1, 2, 3, 3, 3)), feed(normal(2, 3, 2, 2, 3)),
                                  output_shape=[1, 4, 5, 6, 2], strides=[1, 2, 2, 2, 1],
                                  padding="SAME")


# ---- pools ----

for padding in ["SAME", "VALID"]:
    window = dict(ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding=padding)

    @case(name=f"max_pool_{padding.lower()}")
    def max_pool(window=window):
        return tf.nn.max_pool(feed(normal(2, 6, 5, 3)), **window)

    @case(name=f"avg_pool_{padding.lower()}")
    def avg_pool(window=window):
        return tf.nn.avg_pool(feed(normal(2, 6, 5, 3)), **window)

    @case(name=f"max_pool_argmax_{padding.lower()}")
    def max_pool_argmax(window=window):
        return list(tf.nn.max_pool_with_argmax(feed(normal(2, 6, 5, 3)), **window))

    window3 = dict(ksize=[1, 2, 3, 2, 1], strides=[1, 1, 2, 2, 1], padding=padding)

    @case(name=f"max_pool3d_{padding.lower()}")
    def max_pool3d(window=window3):
        return tf.nn.max_pool3d(feed(normal(1, 4, 5, 4, 2)), **window)

    @case(name=f"avg_pool3d_{padding.lower()}")
    def avg_pool3d(window=window3):
        return tf.nn.avg_pool3d(feed(normal(1, 4, 5, 4, 2)), **window)


@case
def max_pool_ties():
    return tf.nn.max_pool(feed(integers(0, 2, 2, 6, 6, 2).astype("float32")),
                          ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


@case
def max_pool3d_ties():
    return tf.nn.max_pool3d(feed(integers(0, 2, 1, 4, 4, 4, 2).astype("float32")),
                            ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME")


@case
def max_pool_nothing_finite():
    inf, nan = float("inf"), float("nan")
    return tf.nn.max_pool(feed([[[[-inf], [nan]], [[nan], [-inf]], [[nan], [3]], [[1], [nan]]]],
                               dtype="float32"),
                          ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


@case
def max_pool_int():
    return tf.nn.max_pool(feed(integers(-9, 9, 2, 6, 5, 3)), ksize=[1, 2, 2, 1],
                          strides=[1, 2, 2, 1], padding="SAME")


@case
def max_pool_sizes_fed():
    x = feed(normal(2, 6, 5, 3))
    return tf.raw_ops.MaxPoolV2(input=x, ksize=feed([1, 2, 3, 1], dtype="int32"),
                                strides=feed([1, 2, 2, 1], dtype="int32"), padding="SAME")


@case(floor=2e-6)
def pools_gradient_of_gradient():
    x = feed(normal(2, 6, 6, 2))
    window = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    y = tf.nn.max_pool(x, **window) * tf.nn.avg_pool(x, **window)
    return tf.gradients(tf.reduce_sum(y * y), x)


# ---- normalisation ----

for kind in ["train", "infer", "average"]:
    for data_format in ["NHWC", "NCHW"]:
        @case(name=f"fused_batch_norm_{kind}_{data_format.lower()}", floor=4e-6)
        def batch_norm(kind=kind, data_format=data_format):
            x = feed(normal(4, 3, 2, 3) if data_format == "NHWC" else normal(4, 3, 3, 2))
            given = {} if kind == "train" else dict(mean=feed(normal(3)),
                                                    variance=feed(uniform(0.5, 2, 3)))
            if kind == "average":
                given["exponential_avg_factor"] = 0.3
            return list(tf.nn.fused_batch_norm(
                x, feed(normal(3)), feed(normal(3)), epsilon=0.01, data_format=data_format,
                is_training=kind != "infer", **given))


for version in ["", "V2", "V3"]:
    @case(name=f"fused_batch_norm_outputs{version}", floor=4e-6)
    def batch_norm_outputs(version=version):
        op = getattr(tf.raw_ops, f"FusedBatchNorm{version}")
        y = op(x=feed(normal(4, 3, 2, 3)), scale=feed(normal(3)), offset=feed(normal(3)),
               mean=tf.constant([], tf.float32), variance=tf.constant([], tf.float32))
        return list(y)


@case
def fused_batch_norm_no_images():
    return list(tf.nn.fused_batch_norm(feed(normal(0, 3, 2, 3), shape=[None, 3, 2, 3]),
                                       feed(normal(3)), feed(normal(3)))[:3])


@case(floor=1e-4)
def fused_batch_norm_far_from_zero():
    return list(tf.nn.fused_batch_norm(feed(normal(8, 3, 3, 2) + 100), feed(normal(2)),
                                       feed(normal(2))))


for training in (True, False):
    for data_format in ["NHWC", "NCHW"]:
        @case(name="fused_batch_norm_gradient_of_gradient_"
              f"{'train' if training else 'infer'}_{data_format.lower()}", floor=4e-5)
        def batch_norm_twice(training=training, data_format=data_format):
            x = feed(normal(4, 3, 2, 3) if data_format == "NHWC" else normal(4, 3, 3, 2))
            given = {} if training else dict(mean=feed(normal(3)),
                                             variance=feed(uniform(0.5, 2, 3)))
            scale = feed(normal(3))
            y = tf.nn.fused_batch_norm(x, scale, feed(normal(3)), epsilon=0.01,
                                       data_format=data_format, is_training=training, **given)[0]
            return tf.gradients(tf.reduce_sum(tf.tanh(y)), [x, scale])


@case(floor=4e-6)
def batch_norm_in_cond():
    x, training = feed(normal(6, 3, 3, 2)), feed(True)
    scale, offset = feed(normal(2)), feed(normal(2))
    mean, variance = feed(normal(2)), feed(uniform(0.5, 2, 2))
    return list(tf.cond(training, lambda: tf.nn.fused_batch_norm(x, scale, offset)[:3],
                        lambda: tf.nn.fused_batch_norm(x, scale, offset, mean, variance,
                                                       is_training=False)[:3]))


for radius, beta in [(5, 0.5), (1, 0.75), (2, 1.0)]:
    @case(name=f"lrn_{radius}_{beta}", tolerance=2e-6, floor=2e-6)
    def lrn(radius=radius, beta=beta):
        return tf.nn.local_response_normalization(feed(normal(2, 2, 3, 7)), depth_radius=radius,
                                                  bias=1.5, alpha=0.7, beta=beta)


# ---- blocks ----

@case
def space_to_batch_nd():
    return tf.space_to_batch_nd(feed(normal(2, 5, 6, 2)), [2, 3], [[1, 0], [2, 1]])


@case
def batch_to_space_nd():
    return tf.batch_to_space_nd(feed(normal(12, 3, 3, 2)), [2, 3], [[1, 0], [2, 1]])


@case
def batch_to_space_fed():
    return tf.batch_to_space_nd(feed(normal(12, 3, 3, 2)), feed([2, 3], dtype="int32"),
                                feed([[1, 0], [2, 1]], dtype="int32"))


@case
def space_to_batch():
    return tf.space_to_batch(feed(normal(2, 5, 6, 2)), [[1, 0], [1, 1]], 2)


@case
def batch_to_space():
    return tf.batch_to_space(feed(normal(8, 3, 4, 2)), [[1, 0], [1, 1]], 2)


for data_format in ["NHWC"]:
    @case(name=f"space_to_depth_{data_format.lower()}")
    def space_to_depth(data_format=data_format):
        return tf.space_to_depth(feed(normal(2, 4, 6, 4)), 2, data_format=data_format)

    @case(name=f"depth_to_space_{data_format.lower()}")
    def depth_to_space(data_format=data_format):
        return tf.depth_to_space(feed(normal(2, 4, 4, 8)), 2, data_format=data_format)


# ---- sizes, dilation, biases ----

PLACES = {"legacy": {}, "align": dict(align_corners=True),
          "half": dict(half_pixel_centers=True)}
for name, options in PLACES.items():
    for size in [(7, 9), (2, 3), (4, 5), (1, 1)]:
        @case(name=f"resize_bilinear_{name}_{size[0]}", floor=2e-6)
        def bilinear(options=options, size=size):
            return tf.raw_ops.ResizeBilinear(images=feed(normal(2, 4, 5, 3)), size=size,
                                             **options)

        @case(name=f"resize_nearest_{name}_{size[0]}", floor=2e-6)
        def nearest(options=options, size=size):
            return tf.raw_ops.ResizeNearestNeighbor(images=feed(normal(2, 4, 5, 3)), size=size,
                                                    **options)


for name, options in PLACES.items():
    for size in [(7, 9), (2, 3), (4, 5), (1, 1)]:
        @case(name=f"resize_bicubic_{name}_{size[0]}", floor=4e-6)
        def bicubic(options=options, size=size):
            return tf.raw_ops.ResizeBicubic(images=feed(normal(2, 4, 5, 3)), size=size,
                                            **options)


@case
def resize_bicubic_of_other_types():
    x = feed(integers(0, 256, 1, 4, 6, 2, dtype="uint8"))
    y = feed(normal(1, 3, 4, 2, dtype="float64"))
    return [tf.image.resize_bicubic(x, (7, 3)), tf.image.resize_bicubic(y, (5, 3))]


for method in ["bilinear", "nearest"]:
    @case(name=f"crop_and_resize_{method}", gradients=method == "bilinear", floor=4e-6)
    def crop(method=method):
        boxes = feed([[0.1, 0.15, 0.8, 0.9], [0.7, 0.2, 0.25, 0.95], [-0.3, 0.1, 1.2, 0.7]],
                     dtype="float32")
        return [tf.image.crop_and_resize(feed(normal(2, 5, 6, 3)), boxes,
                                         feed([1, 0, 1], dtype="int32"), size, method=method,
                                         extrapolation_value=0.5)
                for size in [(3, 4), (1, 2), (7, 1)]]


@case(gradients=False)
def crop_gradients():
    boxes, at = feed([[0.1, 0.15, 0.8, 0.9]], dtype="float32"), [0]
    grads = feed(normal(1, 2, 3, 2))
    of = dict(grads=grads, boxes=boxes, box_ind=at)
    f = tf.raw_ops.CropAndResizeGradImage
    return [f(**of, image_size=[1, 4, 5, 2], T=tf.float32, method="nearest"),
            f(**of, image_size=[1, 4, 5, 2], T=tf.float64),
            tf.raw_ops.CropAndResizeGradBoxes(**of, image=feed(integers(0, 9, 1, 4, 5, 2)))]


@case(fails="outside [0, batch_size)")
def crop_of_no_image():
    return tf.image.crop_and_resize(feed(normal(2, 5, 6, 3)), [[0, 0, 1, 1]],
                                    feed([2], dtype="int32"), (2, 2))


for padding in ["SAME", "VALID"]:
    @case(name=f"patches_{padding.lower()}", gradient_refused="patches of images")
    def patches(padding=padding):
        x = feed(normal(2, 6, 7, 2))
        return [tf.extract_image_patches(x, ksizes=[1, 3, 2, 1], strides=[1, 2, 3, 1],
                                         rates=[1, 1, 1, 1], padding=padding),
                tf.extract_image_patches(x, ksizes=[1, 2, 3, 1], strides=[1, 1, 1, 1],
                                         rates=[1, 2, 2, 1], padding=padding)]


@case
def resize_images_uint8():
    x = feed(integers(0, 256, 2, 8, 6, 3, dtype="uint8"))
    return [tf.image.resize_images(x, (4, 5)), tf.image.resize_bilinear(x, (4, 5)),
            tf.image.resize_nearest_neighbor(x, (4, 5))]


@case
def resize_double():
    return tf.image.resize_bilinear(feed(normal(1, 3, 4, 2, dtype="float64")), (5, 3))


@case
def dilation2d():
    return tf.nn.dilation2d(feed(normal(2, 6, 5, 3)), feed(normal(2, 3, 3)),
                            strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="SAME")


@case
def bias_add_v1():
    return tf.raw_ops.BiasAddV1(value=feed(normal(2, 3, 3, 4)), bias=feed(normal(4)))


@case
def bias_add_nchw():
    return tf.nn.bias_add(feed(normal(2, 4, 3, 3)), feed(normal(4)), data_format="NCHW")
