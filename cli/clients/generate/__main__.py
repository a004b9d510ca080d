"""Writes what of the clients follows from the API: types of its messages, and a method for each of its calls.

    python3 cli/clients/generate openapi.json            # as /v1/openapi.json gives it; `-` reads it from standard input
    python3 cli/clients/generate openapi.json --check    # changes nothing: fails where what is there is not what would be written
    python3 cli/clients/generate openapi.json --only go  # one language alone

A test of the repository does the second with the document of a running controller. Standard library only.
"""

import argparse
import json
import sys

# Nothing is left beside the sources.
sys.dont_write_bytecode = True

import go  # noqa: E402
import python  # noqa: E402
import reading  # noqa: E402
import typescript  # noqa: E402

LANGUAGES = {"python": python, "go": go, "typescript": typescript}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", help="the OpenAPI document; - for standard input")
    parser.add_argument("--check", action="store_true", help="change nothing, and fail where something would change")
    parser.add_argument("--only", choices=sorted(LANGUAGES), help="one language alone")
    options = parser.parse_args()
    with sys.stdin if options.document == "-" else open(options.document, encoding="utf-8") as file:
        document = json.load(file)
    wrong = []
    for name, language in LANGUAGES.items():
        if options.only in (None, name):
            wrong += reading.settled(language.ROOT, language.FOLDERS, language.ENDING, language.files(document), options.check)
    for path in wrong:
        print(f"{path}: {'not as the API says it: run cli/clients/generate' if options.check else 'written'}")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
