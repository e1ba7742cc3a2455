"""Steps of the Collatz sequence from n down to 1; −1 where there are more than LIMIT."""
from typing import Final

LIMIT: Final = 10 * 100


def steps(n: int) -> int:
    count = 0
    while n != 1:
        if count > LIMIT:
            break
        n = 3 * n + 1 if n % 2 else n // 2
        count += 1
    else:
        return count
    return -1
