"""Statements with constants in them, each with a trait that random expressions miss."""
CASES = r"""
x = 24 * 60 * 60
x = 2 ** 64
x = 2 ** 127; y = 2 ** 128; z = 2 ** 129
x = 1 << 127; y = 1 << 128; z = 3 << 127
x = 10 ** 38; y = 10 ** 39
x = 2 ** 64 * 2 ** 63; y = 2 ** 64 * 2 ** 64
x = 'a' * 4096; y = 'a' * 4097; z = 4096 * b'a'
x = (1,) * 256; y = (1,) * 257
x = ((1, 2), (3, 4)) * 100
x = ((1, 2, 3, 4, 5, 6, 7, 8), ) * 128
x = '' * 10 ** 18; y = '' * 10 ** 30; z = () * -5
x = 1 / 0; y = 1 // 0.0; z = 1 % 0; w = 0 ** -1; v = 0.0 ** -2
x = 1e308 * 10; y = 1e308 * 10 - 1e308 * 10; z = -(1e308 * 10)
x = (-8) ** 0.5; y = (-8.0) ** (1 / 3); z = 2 ** -1; w = (1 + 2j) ** (3 - 1j); v = 1j ** 2; u = (0j) ** -1; t = (1 - 2j) ** 1e308; s = 0.0 ** -(1e308 * 10)
x = 0 / -5; y = -0.0; z = 0.0 * -1; w = -0j; v = 1 - 2j; u = -(1 + 0j); t = -1 % 5; s = -1.5 // 0.4; r = 5 % -3.0
x = 10 ** 300 / 10 ** 299; y = (2 ** 100 + 1) / 3; z = 1 / (2 ** 120)
x = True + True; y = True & False; z = ~True; w = -True; v = +False; u = True | 2; t = not True
x = 'abc'[0]; y = 'abc'[-1]; z = 'abc'[3]; w = b'abc'[1]; v = (1, 2, 3)[True]; u = (1, 2)[2]; t = 'abc'[0:2]; s = 'abc'[1.0]
x = 'a' + 'b'; y = b'a' + b'b'; z = 'a' + b'b'; w = (1,) + (2,); v = 'a' + 1
x = not a in b; y = not a not in b; z = not a is b; w = not a is not b; v = not a == b; u = not a < b; t = not a in b in c
x = not (not a in b)
x = not (a not in b if 1 else c); y = not (not a == b if (0, 1) else c)
if not (a is b if 1 else c): f(1)
x = a in [1, 2]; y = a in [1, b]; z = a in {1, 2}; w = a in {1, b}; v = a in [*b]; u = a in [1, *b]; t = a in []; s = a not in [1, 2] in [3]
x = a in {1, True, 1.0, 2, 'a', (1, 2), (1.0, 2)}
x = a in (1, [2, 3]); y = a == [1, 2]
for a in [1, 2]: f(a)
for a in [b, c]: f(a)
for a in {1, 2, 3}: f(a)
for a in {b, 2}: f(a)
for a in 1, 2 + 3: f(a)
for a, b in [(1, 2), (3, 4)]: f(a)
x = [a for a in [1, 2] for b in {3, 4} if a if 1]; y = {a for a in [b]}; z = {a: 1 for a in [1 + 1]}; w = (a for a in [])
x = [a for a in b if 0]; y = [a for a in b if c and 1]; z = [a for a in b if 1 and c]
x = '%s-%r' % (a, b); y = '%a' % (a,); z = '%5s|%-5s|%05s|%+s|%#r|% s' % (a, b, c, d, e, f)
x = '%.3s|%10.2r|%.s|%-10.0a' % (a, b, c, d); y = '%100s' % (a,); z = '%.005s' % (a,); w = '%99s' % (a,); v = '%.99s' % (a,)
x = '%d' % (a,); y = '%s %s' % (a,); z = '%s' % (a, b); w = '%s%%' % (a,); v = '%%%s%%%%' % (a,); u = '%' % (a,); t = '%s' % a; s = '%s' % (1,)
x = '%(k)s' % (a,); y = '%*s' % (a, b); z = '%ls' % (a,); w = 'abc' % (*a,); v = '%s' % (*a,); u = b'%s' % (a,); t = '%s%' % (a,); q = '%s' % (a + 1 * 2,)
x = '%s' % (f'{a}',) + 'b'; y = ('%s' % (a,)) % (b,)
x = 1 and a; y = 0 and a; z = a and 1 and b; w = a and 0 and b; v = a or 0 or b; u = a or 1 or b; t = 1 and 2 and 3; s = 0 or '' or None
x = (0 and a) or b; y = (1 and a) or b; z = (a and 1) or b; w = (1 or a) and b; v = a and (0 or b); u = (1 and 2) + 3
x = not (0 and a); y = not (a and 1); z = not (1 if a else 2)
x = a if 1 else b; y = a if 0 else b; z = a if (1 and 2) else b; w = a if b and 1 else c; v = a if not (0 or b) else c; u = 1 if 1 else 2
x = (a if 1 else b) + 1; y = (2 if 1 else b) + 1; z = (1, 2 if 1 else 3); w = (1 and 2, 3); v = (3, 1 and 2)
x = a if (b if 1 else 0) else c; y = a if (0 if b else 1) else c; z = a if (0 and b) or c else d; w = a if (b and 0) or c else d
x = 0 and (y := 1); z = 1 or (lambda: q); w = 0 and [i for i in b]; v = 0 and f(y)
if 0: f(1)
if 1: f(1)
if 0: f(1)
else: f(2)
if '': f(1)
elif a: f(2)
else: f(3)
if a: f(1)
elif 1: f(2)
else: f(3)
if a and 0: f(1)
else: f(2)
if a or 1: f(1)
else: f(2)
if not 0: f(1)
if not (a and 1): f(1)
if not not a: f(1)
if a is None and 1: f(1)
if None: f(1)
if 1 and a and 1: f(1)
else: f(2)
if (a and 1) or (0 and b) or c: f(1)
if (a or 1) and b: f(1)
if 0: import y
if 0: y = 1
else: f(2)
while 0: f(1)
while 0: f(1)
else: f(2)
while 1: f(1); break
while True:
    if a: break
else:
    f(2)
while a and 1: f(1)
while 1 and a: f(1)
while not 0:
    if f(1): break
assert 1; f(1)
assert 1, f(1)
assert 0; f(1)
assert a and 1, 'b'
assert 1 or a; f(1)
1; 'b'; f(1); 2 + 3; (1, 2); ...; None; f'a'
'doc'; f(1)
'a' + 'b'; f(1)
f'a'; f(1)
if 1: 'doc'
f(1)
def h(): 'doc'; return 1
def h(): 'a' + 'b'
def h(): 1
def h():
    if 0: yield
    return 1
def h():
    if 0: q = 1
    return q
def h():
    if 0: f(1)
    return 1 + 1
def h(a=1 + 1, *b, c=(1, 2 * 3), d=not 0, **e) -> 1 + 2: return a
def h(a: 1 + 1 = 2, b: 'x' * 2 = None) -> (1, 2): pass
def h(a): return a and 1 and f(a + 2 * 3)
def h(a): return 1 if a else 2 * 3
h = lambda a=1 + 2: a + (3 + 4) if 1 else 5
class C(B, k=1 + 2):
    'doc'
    a: 1 + 2 = 3 + 4
    if 0: b = 1
    c = 5 and d
class C: 'a' + 'b'
x[1 + 2] = 3 * 4; x[1:2 * 3] += 4; del x['a' + 'b']; (a, b) = (1, 2); [c, d] = 1, 2; x.y = -1
a = b = 2 * 3; a += 2 ** 3; c: 1 + 1 = 4; d: 'a' + 'b'
x = [1, 2, 3]; y = {1, 2, 3}; z = [1, 2 + 3]; w = {1: 2, 'a' + 'b': 3 * 4}; v = {**a, 1 + 1: 2}; u = [*a, 1 + 2]
x = (1, *a, 2 * 3); y = f(*[1, 2], **{'a': 1 + 1}); z = f(1 + 1, k=2 * 3)
x = __debug__; y = not __debug__; z = 1 if __debug__ else 2; w = a.__debug__
if __debug__: f(1)
x = f'{1}'; y = f'a{1 + 2}b'; z = f'{a:>{3 * 4}}'; w = f'{a!r}' 'b'; v = f''; u = f'{a}' f''; t = f'{"a"}'; s = f'{a:x}'
x = (1, f'a'); y = (f'a', 1); z = ((f'a',), f'b'); w = (1, (2, f'a')); v = ((f'a', 2), 1); u = (f'a',); t = (((f'a',),),); s = (1, (f'a',))
x = f'a' and b; y = f'a' if f'' else b; z = f'a' + 'b'; w = (f'a', b); v = [f'a']; u = a[1, f'b']; t = (f'', 1)
if f'a': f(1)
x = not f'a'; y = not f''; z = not (1, f'a')
if 1 and f'a': f(1)
if (1, f'a'): f(1)
x = a if (f'b', 'c') else d; y = a if ('', (f'b', 2)) else d
'a' and 'b'; f(1)
x = 1 < 2; y = 1 == 1 == 1; z = None is None; w = 'a' in 'abc'; v = 1 in (1, 2); u = () == ()
x = -(-(5)); y = ~~5; z = - -a; w = +'a'; v = ~1.0; u = -None; t = not ...; s = not 'a'; q = -(1 - 2j)
x = 1 if a else 2 if 1 else 3
x = 1 @ 2; y = a * 2 * 3; z = 2 * 3 * a; w = a + (2 + 3)
try: f(1 + 1)
except 1 + 2: f(2)
else: f(3) if 1 else f(4)
finally: f(0 or 5)
with a(1 + 2) as b, c[0 and 1]: f('a' + 'b')
try: f(1)
finally: 1
global q; q = 1 + 1
x = (yield_ := 1 + 2); y = lambda: (yield 1 + 2)
async def h():
    'doc'
    async for a in [1, 2]: await f(1 + 2)
    return [b async for b in [c, 3]]
match a:
    case 1: f(1 + 2)
    case -1 | 1 + 2j if 1: f(3)
    case 'x' if 0: f(4)
    case [1, *b] if c and 1: f(5)
    case {'a': -2}: f(6)
x = 2 ** 0.5; y = 4 ** -0.5; z = 1e200 ** 2; w = 1e-200 ** 2; v = 0.1 + 0.2; u = 1e16; t = 1.5e300 * 1e-300
x = 9007199254740993 + 0.0; y = 9007199254740993 / 1; z = 2 ** 60 / 3; w = 10 ** 25 / 3; v = 5 >> 1; u = -5 >> 1; t = 5 >> 1000; s = -5 >> 1000; q = 1 << -1
x = -7 // 2; y = -7 % 3; z = 7 // -2; w = 7 % -3; v = -7 // 2.0; u = 7.5 % -2; t = -0.0 // 1; s = 0.0 % -1; q = 6 ^ -3; p = -6 | 3; o = -6 & 3
from __future__ import annotations; a: 1 + 1 = 2; x = 1 + 1
"""
SINCE_312 = r"""
type T = 1 + 2
def h[T: (1 + 2, 3)](a: T) -> 4 * 5: return 1 and a
x = f'{'a' + 'b'}'; y = f'{a:{'>' '5'}}'; z = f'{'a'}{1 and a}'
"""


def texts(version):
    """One for each statement with its lines: a line that starts with a space, else, elif, except, finally belongs to the one before."""
    found = []
    for line in (CASES + (SINCE_312 if version >= (3, 12) else "")).strip().splitlines():
        if line.startswith((" ", "else", "elif", "except", "finally")):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return [text + "\nf('after')\nf('after', x)\nf('after', y)" for text in found]
