"""Functions that Python brings along."""


def abs(x): return ops.Abs(x)
def divmod(a, b): return a // b, a % b


def pow(a, b, modulus=None):
    return a ** b if modulus is None else a ** b % modulus


def sum(items, start=0):
    for item in anfora.unordered(items):
        start = start + item
    return start


def min(first, *rest, key=None, default=...):
    items = (first, *rest) if rest else list(first) if anfora.is_generator(first) else anfora.unordered(first)
    if anfora.is_known(len(items)) and len(items) == 0:
        return anfora.fail("min() of an empty sequence") if default is ... else default
    least = items[0]
    for item in items:
        if key is None:
            least = item if item < least else least
        else:
            least = item if key(item) < key(least) else least
    return least


def max(first, *rest, key=None, default=...):
    items = (first, *rest) if rest else list(first) if anfora.is_generator(first) else anfora.unordered(first)
    if anfora.is_known(len(items)) and len(items) == 0:
        return anfora.fail("max() of an empty sequence") if default is ... else default
    most = items[0]
    for item in items:
        if key is None:
            most = item if item > most else most
        else:
            most = item if key(item) > key(most) else most
    return most


def any(items):
    for item in anfora.unordered(items):
        if item:
            return True
    return False


def all(items):
    for item in anfora.unordered(items):
        if not item:
            return False
    return True


def map(function, *iterables):
    return (function(*items) for items in zip(*iterables))


def filter(function, items):
    return (item for item in items if (item if function is None else function(item)))


def _iterate(items):
    for item in items:
        yield item


def _enumerate_of(items, start=0):
    place = start
    for item in items:
        yield place, item
        place += 1


def _zip_of(first, *rest):
    """zip() where one of them is a generator."""
    others = [iter(items) for items in rest]
    for item in first:
        row = (item,)
        for items in others:
            for other in items:
                row = (*row, other)
                break
            else:
                return
        yield row


def round(x, ndigits=None):
    if ndigits is None:
        return int(numpy.rint(x)) if anfora.is_number(x) else numpy.rint(x)
    rounded = numpy.round(x, ndigits)
    return int(rounded) if anfora.is_number(x) and numpy._is_whole(x) else rounded


def sorted(iterable, key=None, reverse=False):
    if anfora.is_generator(iterable):
        iterable = list(iterable)
    if isinstance(iterable, numpy.ndarray):
        keys = iterable if key is None else numpy.stack([key(item) for item in iterable])
        return list(iterable[numpy.argsort(keys, descending=reverse)])
    if isinstance(iterable, (list, collections.deque)) and not anfora.is_known(len(iterable)):
        keys = iterable if key is None else [key(item) for item in iterable]
        return [_item_of(iterable[0], item) for item in numpy.stack(iterable)[numpy.argsort(numpy.stack(keys), descending=reverse)]]
    items = list(anfora.unordered(iterable))
    keys = items if key is None else [key(item) for item in items]
    if not anfora.is_known(tuple(keys)):
        order = numpy.argsort(numpy.stack(keys), descending=reverse)
        columns = anfora.tree_map(lambda *leaves: numpy.stack(leaves), *items)
        return [anfora.tree_map(lambda leaf, column: _item_of(leaf, column[order[i]]), items[0], columns) for i in range(len(items))]
    ordered, found = [], []
    for item, its in zip(items, keys):
        place = len([k for k in found if not (its > k if reverse else its < k)])
        ordered, found = ordered[:place] + [item] + ordered[place:], found[:place] + [its] + found[place:]
    return ordered


def _item_of(like, x):
    """An item of a tensor, as a number where these were numbers."""
    if not anfora.is_number(like):
        return x
    return bool(x) if x.dtype == numpy.bool_ else int(x) if numpy._is_whole(x) else float(x)


def _init_exception(self, *args):
    self.args = args


def _text_of_exception(self):
    if len(self.args) < 2:
        return f"{self.args[0]}" if self.args else ""
    return str(self.args)


def _text_of_key_error(self):
    return f"{self.args[0]!r}" if len(self.args) == 1 else _text_of_exception(self)


def _joined(first, second):
    joined = [item for item in first]
    _extend(joined, second)
    return joined


def _extend(items, more):
    for item in list(more):
        items.append(item)


def _index_of(items, wanted):
    for place, item in enumerate(items):
        if item == wanted:
            return place
    raise ValueError


def _count_of(items, wanted):
    found = 0
    for item in items:
        found += 1 if item == wanted else 0
    return found


def _remove_from(items, wanted):
    for place, item in enumerate(items):
        if item == wanted:
            del items[place]
            return
    raise ValueError
