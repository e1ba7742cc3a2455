"""What the compiler says of programs that it refuses."""
import re
from collections.abc import Callable
from typing import Any

import pytest

import anfora


def expect_refusal(function: Callable[..., Any], message: str, *arguments: Any) -> None:
    """The error's text matches the pattern, and it has a hint and a caret below the place."""
    with pytest.raises(anfora.Error) as caught:
        anfora.jit(function)(*arguments)
    assert re.search(message, caught.value.message), caught.value.message
    assert caught.value.hint and "^" in str(caught.value)
