"""Functions that Python brings along."""


def abs(x): return ops.Abs(x)
def divmod(a, b): return a // b, a % b


def pow(a, b, modulus=None):
    return a ** b if modulus is None else a ** b % modulus


def sum(items, start=0):
    for item in items:
        start = start + item
    return start


def min(first, *rest):
    if len(rest) == 0:
        least = first[0]
        for item in first:
            least = item if item < least else least
        return least
    least = first
    for item in rest:
        least = item if item < least else least
    return least


def max(first, *rest):
    if len(rest) == 0:
        most = first[0]
        for item in first:
            most = item if item > most else most
        return most
    most = first
    for item in rest:
        most = item if item > most else most
    return most


def any(items):
    for item in items:
        if item:
            return True
    return False


def all(items):
    for item in items:
        if not item:
            return False
    return True


def map(function, *iterables):
    return [function(*items) for items in zip(*iterables)]


def filter(function, items):
    return [item for item in items if (item if function is None else function(item))]


def round(x, ndigits=None):
    if ndigits is None:
        return int(numpy.rint(x)) if anfora.is_number(x) else numpy.rint(x)
    rounded = numpy.round(x, ndigits)
    return int(rounded) if anfora.is_number(x) and numpy.is_whole(x) else rounded


def sorted(iterable, key=None, reverse=False):
    ordered, keys = [], []
    for item in iterable:
        its = item if key is None else key(item)
        place = len([k for k in keys if not (its > k if reverse else its < k)])
        ordered, keys = ordered[:place] + [item] + ordered[place:], keys[:place] + [its] + keys[place:]
    return ordered
