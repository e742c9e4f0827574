"""Audit everything that is shipped, in five to ten minutes; exit status 1 if a claim is broken or a twin not caught.

python -m benchmarks.audits                          # print the table
python -m benchmarks.audits --only transcript        # only cases with this in their name
python -m benchmarks.audits --scale 10 --json        # with ten times the trials, in an hour or more
"""

import argparse
import json

from benchmarks.audits import cases
from common.core.errors import BadInput
from deploy.auditing import report


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in their name")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the trials of every case")
    parser.add_argument("--json", action="store_true", help="one document in place of the table")
    options = parser.parse_args()
    try:
        found = report(cases(), only=options.only, scale=options.scale, write=None if options.json else print)
    except BadInput as error:
        parser.error(str(error))
    if options.json:
        print(json.dumps([row.document() for row in found], indent=2))
    raise SystemExit(not all(row.expected for row in found))


if __name__ == "__main__":
    main()
