"""What the workers of one run compile: each loop once, whoever needs it first."""

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
