"""What every party shares: records and queries, messages, identities, mechanisms and privacy accounting.

Imports no party. Nothing here holds anybody's records.
"""

import sys

if sys.platform == "win32":
    raise ImportError(
        "Tandem runs on Linux and macOS: on Windows use it in the Windows Subsystem for Linux (wsl --install) or in "
        "Docker; docs/running.md says how"
    )
