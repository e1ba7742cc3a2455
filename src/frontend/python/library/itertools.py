"""Functions of Python's module itertools: generators, as there."""


def count(start=0, step=1):
    n = start
    while True:
        yield n
        n = n + step


def cycle(items):
    kept = list(items) if anfora.is_generator(items) else items
    while len(kept) > 0:
        yield from kept


def repeat(object, times=None):
    if times is None:
        while True:
            yield object
    else:
        for _ in range(times):
            yield object


def _running(total, items, function):
    yield total
    for item in items:
        total = total + item if function is None else function(total, item)
        yield total


def accumulate(iterable, func=None, *, initial=None):
    if initial is not None:
        yield from _running(initial, iterable, func)
    elif isinstance(iterable, (list, tuple, numpy.ndarray)):
        if len(iterable) > 0:
            yield from _running(iterable[0], iterable[1:], func)
    else:
        items = iter(iterable)
        for first in items:
            yield from _running(first, items, func)
            break


def chain(*iterables):
    for items in iterables:
        yield from items


def _chain_from_iterable(iterables):
    for items in iterables:
        yield from items


def pairwise(iterable):
    if isinstance(iterable, (list, tuple, numpy.ndarray)):
        yield from zip(iterable, iterable[1:])
    else:
        items = iter(iterable)
        for previous in items:
            for item in items:
                yield previous, item
                previous = item


def islice(iterable, *bounds):
    start, stop, step = _slice_bounds(*bounds)
    if stop == 0:
        return
    for place, item in enumerate(iterable):
        if place >= start and (place - start) % step == 0:
            yield item
        if stop is not None and place + 1 >= stop:
            return


def _slice_bounds(first, *rest):
    if len(rest) == 0:
        return 0, first, 1
    step = rest[1] if len(rest) > 1 else None
    return (0 if first is None else first), rest[0], (1 if step is None else step)


def groupby(iterable, key=None):
    items, turn = iter(iterable), 0

    def members(own):
        for item in group:
            if own != turn:  # the next group has begun
                return
            yield item

    for item in items:
        current, group = item if key is None else key(item), [item]
        break
    else:
        return
    for item in items:
        own = item if key is None else key(item)
        if own != current:
            yield current, members(turn)
            current, turn = own, turn + 1
            group.clear()
        group.append(item)
    yield current, members(turn)
    turn += 1


def takewhile(predicate, iterable):
    for item in iterable:
        if not predicate(item):
            break
        yield item


def dropwhile(predicate, iterable):
    drops = True
    for item in iterable:
        drops = drops and predicate(item)
        if not drops:
            yield item


def filterfalse(predicate, iterable):
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def compress(data, selectors):
    for item, selected in zip(data, selectors):
        if selected:
            yield item


def starmap(function, iterable):
    for arguments in iterable:
        yield function(*arguments)


def product(*iterables, repeat=1):
    pools = [list(items) if anfora.is_generator(items) else items for items in iterables]
    yield from _product_of(tuple(pools * repeat))


def _product_of(pools):
    if len(pools) == 0:
        yield ()
    else:
        for item in pools[0]:
            for rest in _product_of(pools[1:]):
                yield (item, *rest)


def combinations(iterable, r):
    yield from _combinations_of(tuple(iterable), r)


def _combinations_of(pool, r):
    if r == 0:
        yield ()
    else:
        for i in tuple(range(len(pool) - r + 1)):
            for rest in _combinations_of(pool[i + 1:], r - 1):
                yield (pool[i], *rest)


def combinations_with_replacement(iterable, r):
    yield from _multisets_of(tuple(iterable), r)


def _multisets_of(pool, r):
    if r == 0:
        yield ()
    else:
        for i in tuple(range(len(pool))):
            for rest in _multisets_of(pool[i:], r - 1):
                yield (pool[i], *rest)


def permutations(iterable, r=None):
    pool = tuple(iterable)
    yield from _permutations_of(pool, len(pool) if r is None else r)


def _permutations_of(pool, r):
    if r == 0:
        yield ()
    else:
        for i in tuple(range(len(pool))):
            for rest in _permutations_of(pool[:i] + pool[i + 1:], r - 1):
                yield (pool[i], *rest)


def zip_longest(*iterables, fillvalue=None):
    pools = [tuple(items) for items in iterables]
    for i in tuple(range(max([len(pool) for pool in pools], default=0))):
        yield tuple([pool[i] if i < len(pool) else fillvalue for pool in pools])


def batched(iterable, n):
    batch = ()
    for item in iterable:
        batch = (*batch, item)
        if len(batch) == n:
            yield batch
            batch = ()
    if len(batch) > 0:
        yield batch
