"""Builds railyard's wheel: the package, librail.so, and the metadata of pyproject.toml. Standard library only.

By pip through PEP 517 (`pip wheel .`) or directly: `python3 railyard_build.py --library librail.so --out DIR`. The library
is named by --library, or by config setting `library`, or by $RAIL_LIBRARY. The same input gives the same bytes.
"""

import argparse
import base64
import hashlib
import os
import re
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = "railyard"
#: The earliest that a zip file can say; the time of building is nobody's business.
WHEN = (1980, 1, 1, 0, 0, 0)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: writes the wheel and returns its file name."""
    settings = config_settings or {}
    library = settings.get("library") or os.environ.get("RAIL_LIBRARY")
    if not library or not os.path.isfile(library):
        raise SystemExit("railyard: set RAIL_LIBRARY to the path of librail.so, or build with `cargo xtask wheel`")
    platform = settings.get("platform") or sysconfig.get_platform()
    tag = f"py3-none-{re.sub('[-.]', '_', platform)}"
    files = {f"{NAME}/{path}": content for path, content in package()}
    with open(library, "rb") as file:
        files[f"{NAME}/librail.so"] = file.read()
    info = f"{NAME}-{version()}.dist-info"
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/entry_points.txt"] = entry_points().encode()
    record = f"{info}/RECORD"
    lines = [f"{path},sha256={digest(content)},{len(content)}" for path, content in sorted(files.items())]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    name = f"{NAME}-{version()}-{tag}.whl"
    os.makedirs(wheel_directory, exist_ok=True)
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(files.items()):
            entry = zipfile.ZipInfo(path, WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: there is none, as the library is built by cargo from the whole repository."""
    raise SystemExit("railyard has no source distribution: build a wheel in a checkout with `cargo xtask wheel`")


def package():
    """The files of the package with their content."""
    root = os.path.join(HERE, NAME)
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".py") or name == "py.typed":
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    yield os.path.relpath(path, root).replace(os.sep, "/"), file.read()


def read(*names):
    with open(os.path.join(HERE, *names), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r'^__version__ = "(.+)"$', read(NAME, "__init__.py"), re.MULTILINE).group(1)


def project(key):
    return re.search(rf'^{key} = "(.+)"$', read("pyproject.toml"), re.MULTILINE).group(1)


def metadata():
    return (
        f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {version()}\nSummary: {project('description')}\n"
        f"License-Expression: {project('license')}\nRequires-Python: {project('requires-python')}\n{extra('client')}"
        f"Description-Content-Type: text/markdown\n\n{read('README.md')}"
    )


def extra(name):
    """The lines of METADATA for packages that are installed for a part of this one, by its name."""
    listed = re.search(rf"^{name} = \[(.+)\]$", read("pyproject.toml"), re.MULTILINE).group(1)
    lines = [f"Requires-Dist: {package}; extra == '{name}'\n" for package in re.findall('"(.+?)"', listed)]
    return f"Provides-Extra: {name}\n{''.join(lines)}"


def entry_points():
    return f"[torch.backends]\nrail = {project('rail')}\n"


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="librail.so")
    parser.add_argument("--out", required=True, help="the folder for the wheel")
    parser.add_argument("--platform", help="the platform's tag, if not this machine's")
    options = parser.parse_args()
    settings = {"library": options.library, "platform": options.platform}
    print(os.path.join(options.out, build_wheel(options.out, settings)))


if __name__ == "__main__":
    sys.exit(main())
