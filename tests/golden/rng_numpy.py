"""The draws of common/rng/rng.h in NumPy: Philox 4x32-10 under keys made of names."""
import numpy as np

MASK = (1 << 64) - 1
FNV_START = 0xcbf29ce484222325


def fnv(h, data):
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & MASK
    return h


def key_of_hash(h):
    h = (h ^ h >> 33) * 0xff51afd7ed558ccd & MASK
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53 & MASK
    return h ^ h >> 33


def make_key(seed, name, purpose):
    h = fnv(FNV_START, seed.to_bytes(8, "little"))
    return key_of_hash(fnv(fnv(h, name.encode() + b"\0"), purpose.encode() + b"\0"))


def derive(key, label):
    return key_of_hash(fnv(fnv(FNV_START, key.to_bytes(8, "little")), label.encode() + b"\0"))


def words(key, counter, blocks):
    """(blocks, 4) uint32: the Philox blocks with these numbers (uint64) of one draw."""
    low = np.uint64(0xffffffff)
    c = [blocks & low, blocks >> np.uint64(32),
         np.full_like(blocks, counter & 0xffffffff), np.full_like(blocks, counter >> 32)]
    k0, k1 = key & 0xffffffff, key >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k0), p1 & low,
             p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = k0 + 0x9E3779B9 & 0xffffffff, k1 + 0xBB67AE85 & 0xffffffff
    return np.stack(c, 1).astype(np.uint32)


def stream(key, counter, n):
    """The first n words of a draw."""
    return words(key, counter, np.arange((n + 3) // 4, dtype=np.uint64)).ravel()[:n]


def uniform(key, counter, n):
    return (stream(key, counter, n) >> 8).astype(np.float32) * np.float32(2.0 ** -24)


def normal(key, counter, n):
    """Box-Muller: r cos and r sin of two words."""
    w = stream(key, counter, n + n % 2)
    u = ((w[::2] >> 9).astype(np.float64) + 0.5) * 2.0 ** -23
    angle = 2 * np.pi * (w[1::2] >> 8).astype(np.float64) * 2.0 ** -24
    r = np.sqrt(-2 * np.log(u))
    return np.stack([r * np.cos(angle), r * np.sin(angle)], 1).ravel()[:n].astype(np.float32)


def below(key, counter, first, bound, n):
    """n integers in [0, bound), from element `first` on (Lemire 2019)."""
    found = []
    for element in range(first, first + n):
        block = element << 32
        while True:
            w = words(key, counter, np.array([block], np.uint64))[0]
            product = (int(w[1]) << 32 | int(w[0])) * bound
            if product & MASK >= (1 << 64) % bound:
                break
            block += 1
        found.append(product >> 64)
    return np.array(found)
