"""Look-up tables that are filled once: agent/ops/tables.c, agent/plan/lower_table.c."""
import numpy as np

from cases import case, feed, integers, normal, tf

WORDS = ["an", "albatross", "", "sees", "a", "snake", "a\0b"]


def table(keys, values, default, fill="InitializeTableV2"):
    """What looks keys up, after the table was filled."""
    keys, values = tf.constant(keys), tf.constant(values)
    handle = tf.raw_ops.HashTableV2(key_dtype=keys.dtype, value_dtype=values.dtype,
                                    shared_name=handle_name())
    filled = getattr(tf.raw_ops, fill)(table_handle=handle, keys=keys, values=values)

    def find(x):
        with tf.control_dependencies([filled]):
            return tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=x,
                                                default_value=tf.constant(
                np.asarray(default, values.dtype.as_numpy_dtype), values.dtype))
    find.handle, find.filled = handle, filled
    return find


def handle_name():
    """Sessions of one process share tables: each has a name of its own."""
    return tf.get_default_graph().unique_name("table")


for fill in ("InitializeTableV2", "LookupTableImportV2"):
    @case(name=f"words_have_numbers_{fill}", gradients=False)
    def words(fill=fill):
        find = table(WORDS, np.arange(7), -1, fill)
        with tf.control_dependencies([find.filled]):
            size = tf.raw_ops.LookupTableSizeV2(table_handle=find.handle)
        x = feed(["a", "hare", "", "albatross", "a\0b", "a\0"], [None])
        return [find(x), find(tf.constant(["sees", "as"])), size]


for key in ("int32", "int64"):
    for value in ("int32", "int64", "float32", "float64"):
        if key == "int32" and value == "int64":
            continue  # TensorFlow has none

        @case(name=f"numbers_{key}_to_{value}", gradients=False)
        def numbers(key=key, value=value):
            keys = np.asarray([5, -3, 0, 2 ** 31 - 1, 7], key)
            find = table(keys, np.asarray([1, 2, 0, 4, 5], value), 0)
            x = feed([[5, 6, 7], [-3, 2 ** 31 - 1, -5]], [None, None], key)
            return [find(x), find(x[0, 0] + x[0, 1] - 11)]


@case(gradients=False)
def numbers_have_words():
    find = table(np.int64([3, 1, 2]), ["three", "", "tw\0"], "none")
    x = feed(integers(0, 5, 2, 4, dtype="int64"), [None, 4])
    return [find(x), find(tf.argmax(feed(normal(3, 4), [None, 4]), 1))]


@case(gradients=False)
def words_have_words():
    return table(["a", "b"], ["A", "B"], "?")(feed(["b", "c"], [None]))


@case(gradients=False)
def a_key_stands_twice():
    find = table(["a", "b", "a"], np.int64([1, 2, 1]), 0)
    with tf.control_dependencies([find.filled]):
        return [find(feed(["a", "b"])), tf.raw_ops.LookupTableSizeV2(table_handle=find.handle)]


@case(fails="are the same, with other values", gradients=False)
def a_key_has_two_values():
    return table(["a", "b", "a"], np.int64([1, 2, 3]), 0)(feed(["a", "b"]))


@case(gradients=False)
def a_large_table():
    keys = np.unique(np.random.RandomState(3).randint(-2 ** 40, 2 ** 40, 3000))
    return table(keys, np.arange(len(keys)), -1)(feed(np.concatenate([keys[::7], keys[::9] + 1])))


for functional in (False, True):
    how = "functional" if functional else "switched"

    @case(name=f"tables_in_branches_{how}", functional=functional, gradients=False)
    def in_branches():
        find, other = table(np.int64([1, 2]), [1.0, 2.0], 0), table(np.int64([1]), [9.0], 0)
        x = feed(integers(0, 3, 5, dtype="int64"), [None])
        return tf.cond(x[0] > 5, lambda: other(x), lambda: find(x))

    @case(name=f"tables_in_loops_{how}", functional=functional, gradients=False)
    def in_loops():
        find = table(np.int64([0, 1, 2, 3]), np.int64([3, 0, 1, 2]), 0)
        x = feed(integers(0, 4, 5, dtype="int64"), [None])
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, find(y)), [0, x],
                             shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])


@case
def embeddings_of_words():
    find = table(["red", "green"], np.int64([0, 1]), 2)
    w = tf.get_variable("w", initializer=normal(3, 4), use_resource=True)
    x = feed(normal(4, 4), [None, 4])
    ids = find(feed(["green", "blue", "red", "red"], [None]))
    return tf.reduce_sum(tf.nn.embedding_lookup(w, ids) * x, 1)


@case(refused="no constants", gradients=False)
def a_table_filled_with_what_is_fed():
    handle = tf.raw_ops.HashTableV2(key_dtype="int64", value_dtype="int64",
                                    shared_name=handle_name())
    filled = tf.raw_ops.InitializeTableV2(table_handle=handle, keys=feed(np.int64([1, 2])),
                                          values=tf.constant(np.int64([3, 4])))
    with tf.control_dependencies([filled]):
        return tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=np.int64([2]),
                                            default_value=np.int64(0))


@case(refused="a table has one initialiser", gradients=False)
def a_table_with_two_initialisers():
    find = table(["a"], np.int64([1]), 0)
    again = tf.raw_ops.InitializeTableV2(table_handle=find.handle, keys=["a"], values=np.int64([1]))
    with tf.control_dependencies([again]):
        return find(feed(["a"]))


@case(refused="use tf.lookup.StaticHashTable", gradients=False)
def a_table_that_runs_change():
    t = tf.raw_ops.MutableHashTableV2(key_dtype="string", value_dtype="int64")
    with tf.control_dependencies([tf.raw_ops.LookupTableInsertV2(table_handle=t, keys=["a"],
                                                                 values=np.int64([7]))]):
        return tf.raw_ops.LookupTableFindV2(table_handle=t, keys=["a"], default_value=np.int64(0))
