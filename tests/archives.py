"""The project's wheels and source archives, built by its own backend without pip."""

import zipfile

from tinyruns import output

BUILD = "import sys; from hatchling import build; build.build_{}(sys.argv[1])"


def build(kind, source, folder):
    """The path of a wheel or sdist of `source`, built into the new `folder`."""
    folder.mkdir()
    output("-c", BUILD.format(kind), folder, cwd=source)
    (built,) = folder.iterdir()
    return built


def install(wheel, folder):
    """Unpack a wheel into the new `folder`, which becomes like site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
