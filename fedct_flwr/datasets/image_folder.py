"""Images in folders, as numbers: ``(n, channels, height, width)`` in 0..1, for networks.

A public set should be PNG or TIFF: what a JPEG's pixels are depends on the library that unpacks it, and silos whose
pixels differ have another fingerprint.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from fedct_flwr.datasets.images import scaled
from fedct_flwr.types import ConfigError, DataError, Features

if TYPE_CHECKING:
    from PIL import Image

_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
_MODES: Final = {"gray": "L", "color": "RGB"}


def read_images(paths: Sequence[Path], size: tuple[int, int], mode: str) -> Features:
    """All images, scaled to ``size`` (height, width); ``mode`` is gray (1 channel) or color (3).

    Images with 16 bits a pixel, as X-rays often are, keep the upper 8. Raises DataError for one that cannot be read,
    which does not quote the file's name, as it may be a patient's; ConfigError where Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            "folders of images need Pillow, the extra 'images': pip install -c constraints.txt -e '.[images]'"
        ) from None
    height, width = size
    pixels = np.empty((len(paths), height, width, 3 if mode == "color" else 1), dtype=np.uint8)
    for number, path in enumerate(paths):
        try:
            with Image.open(path) as image:
                resized = _eight_bits(image).convert(_MODES[mode]).resize((width, height), Image.Resampling.BILINEAR)
        except Exception:  # Pillow raises whatever a damaged file leads its decoders to
            raise DataError(
                f"cannot read image {number + 1} of {len(paths)}, by name, in {path.parent}: it is damaged or of "
                "another kind"
            ) from None
        pixels[number] = np.asarray(resized, dtype=np.uint8).reshape(height, width, -1)
    return scaled(pixels.transpose(0, 3, 1, 2))


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """The image as it is, or with the upper byte of each pixel if it has 16 bits, which Pillow would clip.

    Raises ValueError for pixels that have no range, such as floating-point numbers.
    """
    if image.mode == "F":
        raise ValueError("pixels must be whole numbers")
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image)
    if values.size and (values.min() < 0 or values.max() > np.iinfo(np.uint16).max):
        raise ValueError("pixels must have 16 bits at most")
    from PIL import Image

    return Image.fromarray((values >> 8).astype(np.uint8))


def images_in(folder: Path) -> list[Path]:
    """The image files right in a folder, by name. Raises DataError if there are none."""
    found = _images(_listed(folder))
    if not found:
        raise DataError(f"no images in {folder}: it must hold files such as {', '.join(_SUFFIXES[:3])}")
    return found


def labeled_images_in(folder: Path) -> tuple[list[Path], list[str]]:
    """The image files in a folder's subfolders, which are named after their class, and the class names.

    Raises DataError if there are none.
    """
    classes = [path for path in _listed(folder) if path.is_dir()]
    found = [(path, inner.name) for inner in classes for path in _images(_listed(inner))]
    if not found:
        raise DataError(f"no images in {folder}: it must hold a folder for each class, with images in it")
    paths, names = zip(*found, strict=True)
    return list(paths), list(names)


def _images(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.suffix.lower() in _SUFFIXES and path.is_file()]


def _listed(folder: Path) -> list[Path]:
    """What is in a folder, in the same order on every system; not what systems hide there. Raises DataError."""
    if not folder.is_dir():
        return []
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {error.strerror}") from None
    return sorted(found, key=lambda path: unicodedata.normalize("NFC", path.name))
