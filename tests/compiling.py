"""What the workers of one run compile: each loop once, whoever needs it first; the largest loops before any test."""

import fcntl
import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

MANY = 1000
"""From so many tests on the largest loops are compiled first."""


def share(folder: Path) -> None:
    """Let a worker wait for what another one is compiling, and then read it from the cache.

    Numba would compile it in both, and a cache that two processes write to at the same moment may lose an entry.

    Args:
        folder: For the locks; the same for all workers of a run.
    """
    from numba.core.caching import FunctionCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    folder.mkdir(exist_ok=True)
    compile_one, save_one = Dispatcher.compile, FunctionCache.save_overload
    held: set[str] = set()

    @contextmanager
    def locked(name: str) -> Iterator[None]:
        # The compiler's own lock comes first: threads of a process and processes then wait in the same order.
        with global_compiler_lock:
            if name in held:
                yield
                return
            with (folder / hashlib.sha256(name.encode()).hexdigest()).open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                held.add(name)
                try:
                    yield
                finally:
                    held.remove(name)

    def compile_once(dispatcher: Any, signature: Any) -> Any:
        if isinstance(signature, tuple) and signature in dispatcher.overloads:
            return compile_one(dispatcher, signature)
        function = dispatcher.py_func
        with locked(f"{function.__module__}.{function.__qualname__} {function.__code__.co_firstlineno} {signature}"):
            return compile_one(dispatcher, signature)

    def save_alone(cache: Any, signature: Any, compiled: Any) -> Any:
        with locked(str(cache._cache_file._index_path)):
            return save_one(cache, signature, compiled)

    patched: tuple[Any, Any] = Dispatcher, FunctionCache
    patched[0].compile, patched[1].save_overload = compile_once, save_alone


def large_loops() -> Iterator[Callable[[], Any]]:
    """Yield what compiles the loops of gradient descent: seconds for each kind of record, noise and domain."""
    from common.numerics.randomness import RandomSource
    from curator.learners.base import learn_from
    from curator.learners.half_spaces import Sgd
    from tests.common.numerics.test_targets import sampler

    kinds: tuple[dict[str, Any], ...] = ({}, {"domain": "box", "start": 1.0}, {"lasso": 0.2})
    cases = [
        *((noise, more, d, False) for d, noise, more in product((19, 4), (0.7, 0.0), (*kinds, kinds[1] | kinds[2]))),
        *((0.7, more, 100, False) for more in kinds[:2]),
        (0.0, {}, 19, True),
        (0.7, {}, 100, True),
        (0.7, {}, 4, True),
    ]

    def learn(noise: float, more: dict[str, Any], d: int, fixed: bool) -> None:
        learner = Sgd(steps=20, diameter=6.0, noise=noise, **more)
        learn_from(learner, sampler(d, fixed=fixed), RandomSource.seeded(1), None)

    for case in cases:
        yield partial(learn, *case)


def compile_part(part: int, parts: int) -> None:
    """Compile every ``parts``-th large loop, from number ``part`` on.

    Nothing is traced meanwhile: for its coverage the compiler would take half as long again.
    """
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        for place, work in enumerate(large_loops()):
            if place % parts == part:
                work()
    finally:
        sys.settrace(tracer)
