"""Images in folders, for networks: ``(n, channels, height, width)``, a byte for each value (``images.as_numbers``).

One image after the other is unpacked and scaled down, so that memory never holds more than one in its full size.

A public set should be PNG or TIFF: what a JPEG's pixels are depends on the library that unpacks it, and silos whose
pixels differ have another fingerprint.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.schema import ImageForm
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import ConfigError, DataError, Groups

if TYPE_CHECKING:
    from PIL import Image

_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
_FORMATS: Final = ("PNG", "JPEG", "BMP", "DIB", "TIFF", "GIF", "WEBP")
"""What such files hold, whatever they are called. Pillow knows more: for PostScript it starts another program, and a
public set comes from elsewhere."""
_MODES: Final = {"gray": "L", "color": "RGB"}
_GRAY: Final = ("1", "L", "LA", "La", "F")
"""Pillow's modes without color, but for those of more than 8 bits."""
_USUAL_ROOM: Final = 1 << 30
"""Bytes of pixels that need no justification."""
_MOST_TIMES: Final = 1000
"""Small pictures with few bytes, scaled up for a network that takes large ones, become some hundred times as many."""
_LARGEST_USUAL: Final = 224
"""Pixels along a side that most image networks are made for."""


def read_images(paths: Sequence[Path], size: tuple[int, int], mode: str, *, named: bool = False) -> NDArray[np.uint8]:
    """All images, scaled to ``size`` (height, width); ``mode`` is gray (1 channel) or color (3).

    Images with 16 bits a pixel, as X-rays often are, keep the upper 8. Raises DataError for one that cannot be read,
    which quotes the file's name only where it may be ``named``, as it may be a patient's; ConfigError where Pillow is
    not installed.
    """
    Image = _pillow()
    height, width = size
    pixels = np.empty((len(paths), 3 if mode == "color" else 1, height, width), dtype=np.uint8)
    for number, path in enumerate(paths):
        try:
            with Image.open(path, formats=_FORMATS) as image:
                resized = _eight_bits(image).convert(_MODES[mode]).resize((width, height), Image.Resampling.BILINEAR)
        except Exception:  # Pillow raises whatever a damaged file leads its decoders to
            raise _damaged(paths, number, named) from None
        pixels[number] = np.asarray(resized, dtype=np.uint8).reshape(height, width, -1).transpose(2, 0, 1)
    return pixels


def check_room(paths: Sequence[Path], size: tuple[int, int], mode: str) -> None:
    """Raise DataError for images of a study that stand for far more memory than their files have bytes.

    Whoever wrote the study says how large they are to be: a thousand of one pixel can be scaled to 50 GB.
    """
    room = len(paths) * math.prod(size) * (3 if mode == "color" else 1)
    try:
        stored = sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise DataError(f"cannot read the images in {paths[0].parent}: {error.strerror}") from None
    if room > max(_USUAL_ROOM, _MOST_TIMES * stored):
        raise DataError(
            f"{count(len(paths), 'image')} in {paths[0].parent}, {stored:,} bytes together, would take "
            f"{room / (1 << 30):,.1f} GiB with {size[0]} x {size[1]} pixels: ask the coordinator for a smaller "
            "image-size"
        )


def usual_form(paths: Sequence[Path], *, named: bool = False) -> ImageForm:
    """The size of most of these images, at most 224 pixels along a side, and color if one of them has any.

    Reads their headers alone. Raises as ``read_images``.
    """
    Image = _pillow()
    sizes: Counter[tuple[int, int]] = Counter()
    mode: Literal["gray", "color"] = "gray"
    for number, path in enumerate(paths):
        try:
            with Image.open(path, formats=_FORMATS) as image:
                sizes[(image.height, image.width)] += 1
                if image.mode not in _GRAY and not image.mode.startswith("I"):
                    mode = "color"
        except Exception:
            raise _damaged(paths, number, named) from None
    (height, width), _ = max(sizes.items(), key=lambda found: (found[1], found[0]))
    shrink = min(1.0, _LARGEST_USUAL / max(height, width))
    return ImageForm((max(1, round(height * shrink)), max(1, round(width * shrink))), mode)


def _pillow() -> "ModuleType":
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            "folders of images need Pillow, the extra 'images': pip install -c constraints.txt -e '.[images]'"
        ) from None
    return Image


def _damaged(paths: Sequence[Path], number: int, named: bool) -> DataError:
    """The error for the image at this position, which counts within its own folder."""
    folder = paths[number].parent
    if named:
        return DataError(
            f"cannot read the image {quoted(paths[number].name)} in {folder}, as it is damaged or of another kind: "
            "replace it, or take it away"
        )
    before = sum(path.parent == folder for path in paths[:number])
    among = sum(path.parent == folder for path in paths)
    return DataError(
        f"cannot read image {before + 1} of {among}, by name, in {folder}: it is damaged or of another kind"
    )


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
    found = images_among(listed_in(folder))
    if not found:
        raise DataError(f"no images in {folder}: it must hold files such as {', '.join(_SUFFIXES[:3])}")
    return found


def labeled_images_in(folder: Path) -> tuple[list[Path], list[str]]:
    """The image files in a folder's subfolders, which are named after their class, and the class names.

    Raises DataError if there are none.
    """
    classes = [path for path in listed_in(folder) if path.is_dir()]
    found = [(path, inner.name) for inner in classes for path in images_among(listed_in(inner))]
    if not found:
        raise DataError(f"no images in {folder}: it must hold a folder for each class, with images in it")
    paths, names = zip(*found, strict=True)
    return list(paths), list(names)


def groups_of(paths: Sequence[Path], pattern: str) -> tuple[str, ...] | None:
    """The group that each file's name says, see ``GroupedImages``; None without a pattern.

    Raises DataError for names that say none, which quotes none of them.
    """
    if not pattern:
        return None
    found = [re.search(pattern, path.name) for path in paths]
    names = tuple(match.group(1) if match else None for match in found)
    if without := sum(not name for name in names):
        raise DataError(
            f"group-pattern = {quoted(pattern)} finds no group in the names of {count(without, 'image')} of "
            f"{len(paths)} in {paths[0].parents[1]}: change the pattern, or rename the files"
        )
    return tuple(filter(None, names))


def numbered_groups(paths: Sequence[Path], pattern: str) -> Groups | None:
    """The same as numbers ``(n,)``. Raises DataError."""
    names = groups_of(paths, pattern)
    return None if names is None else np.unique(names, return_inverse=True)[1].astype(np.int64)


def images_among(paths: Iterable[Path]) -> list[Path]:
    """Those of these files that are images by their names."""
    return [path for path in paths if path.suffix.lower() in _SUFFIXES and path.is_file()]


def listed_in(folder: Path) -> list[Path]:
    """What is in a folder, in the same order on every system; not what systems hide there. Raises DataError."""
    if not folder.is_dir():
        return []
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {error.strerror}") from None
    return sorted(found, key=lambda path: unicodedata.normalize("NFC", path.name))
