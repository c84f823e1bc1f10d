"""Values as text, texts that match, and summaries: agent/ops/{text,patterns,summaries}.c."""
from cases import case, feed, integers, normal, tf

NAN, INF = float("nan"), float("inf")
REALS = [1, 0.1, 1 / 3, 1e10, 1e-7, 123456789, NAN, INF, -INF, -0.0, 1e15, 123456.789]


def text(*inputs, template="%s", summarize=3):
    return tf.raw_ops.StringFormat(inputs=list(inputs), template=template, placeholder="%s",
                                   summarize=summarize)


@case
def format_reals():
    return [text(feed(REALS, dtype=t), summarize=n) for t in ("float32", "float64")
            for n in (-1, 2)]


@case
def format_shapes():
    return [text(feed(integers(0, 99, *shape)), summarize=n)
            for shape, n in (((7,), 3), ((6,), 3), ((10, 9), 3), ((2, 2, 2), 3), ((8, 2, 4), 2),
                             ((0,), 3), ((2, 0), 3), ((), 3))]


@case
def format_many():
    return text(feed(True), feed([1, 2], dtype="uint8"), feed(normal()), feed([[-1]]),
                template="a %s, b %s: %s%s.")


@case
def as_string():
    x = feed([1.5, 1 / 3, 1e10, -2, NAN, INF], dtype="float32")
    n = feed([1, -20, 300])
    return [tf.as_string(x), tf.as_string(x, precision=3), tf.as_string(x, scientific=True),
            tf.as_string(x, shortest=True), tf.as_string(x, width=10, fill="0"),
            tf.as_string(x, width=10, fill="-"), tf.as_string(n), tf.as_string(n, width=6),
            tf.as_string(feed([True, False])), tf.as_string(feed(REALS, dtype="float64"))]


@case
def histograms():
    h = tf.summary.histogram("h", feed(normal(40)))
    n = tf.summary.histogram("n", feed(integers(-9, 9, 20)))
    return [h, n, tf.summary.merge([h, tf.summary.scalar("s", feed(normal())), n]),
            tf.summary.histogram("none", feed(normal(0)))]


@case(fails="Nan in summary histogram")
def histogram_of_nan():
    return tf.summary.histogram("h", feed([1, NAN], dtype="float32"))


@case
def tensors():
    return [tf.raw_ops.TensorSummaryV2(tag="t", tensor=feed(normal(2, 3)),
                                       serialized_summary_metadata=b"\x0a\x03\x0a\x01x"),
            tf.raw_ops.TensorSummary(tensor=feed(integers(0, 9, 3)))]


# ---- texts that match a pattern ----

PATTERNS = ["", "a", "^a.*$", "^s3://.*", "a*", "a+b?c", ".", "..", "a.c", r"\d+\.\d*", r"[a-c_]+",
            r"\w+", r"x\*?", "a*a*a*a*a*b", ".*b", ".+", ".?c", r"[-x]\s", "caf\u00e9", "a\\$"]
TEXTS = ["", "a", "aa", "abc", "ac", "b", "s3://x/y", "s4://x", "a\nc", "1.5", "12.", "1", "a_b",
         "x", "x*", "aaaaab", "a" * 300, "caf\u00e9", "\u00e9", "\u00e9c", "- ", "x\t", "a$",
         "\U0001f600", "a\U0001f600c"]
for number, pattern in enumerate(PATTERNS):
    @case(name=f"full_match_{number}", gradients=False)
    def full_match(pattern=pattern):
        texts = feed([t.encode() for t in TEXTS], dtype=object)
        return [tf.strings.regex_full_match(texts, pattern),
                tf.raw_ops.RegexFullMatch(input=texts, pattern=feed(pattern.encode(),
                                                                    dtype=object))]


@case(gradients=False, refused="no patterns like 'a(b|c)'")
def full_match_with_groups():
    return tf.strings.regex_full_match(feed([b"ab"], dtype=object), "a(b|c)")
