#!/usr/bin/env python3
"""Write src/frontend/python/not_printable.inc: from U+007F on, the first and the last of each range that str.isprintable() denies.

usage: python3.11 write_not_printable.py > src/frontend/python/not_printable.inc
"""
import itertools
import textwrap

print("// Written by tests/frontend_python/write_not_printable.py; see repr.cc.")
ranges = []
for _, group in itertools.groupby((c for c in range(0x7F, 0x110000) if not chr(c).isprintable()), key=lambda c, n=itertools.count(): c - next(n)):
    codes = list(group)
    ranges.append(f"{{0x{codes[0]:X},\u00a00x{codes[-1]:X}}},")
print(textwrap.fill(" ".join(ranges), 120).replace("\u00a0", " "))
