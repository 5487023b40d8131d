"""Images in folders, for networks: ``(n, channels, height, width)``, a byte for each value (``images.as_numbers``).

One image after the other is unpacked and scaled down, so that memory never holds more than one in its full size.

As a federation: ``public/`` with images, and for each silo a folder with one folder per class. A folder ``NAME.test``
in the same form holds the images that silo ``NAME`` is tested with.

A public set should be PNG or TIFF: what a JPEG's pixels are depends on the library that unpacks it, and silos whose
pixels differ have another fingerprint.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.tables import DATA_FILE, FolderTables, TableSettings
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, pool, split_silo
from fedct_flwr.datasets.schema import ImageForm, Schema
from fedct_flwr.datasets.table_files import PUBLIC, TEST, holds_tables
from fedct_flwr.datasets.tables import all_classes, class_name, encode_labels
from fedct_flwr.text.printable import count, fault, listed, quoted, suggest
from fedct_flwr.types import ConfigError, DataError, Examples, Groups, SiloName, generator

if TYPE_CHECKING:
    from PIL import Image

T = TypeVar("T")
_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
_FORMATS: Final = ("PNG", "JPEG", "BMP", "DIB", "TIFF", "GIF", "WEBP")
"""Formats that are read, whatever a file's name. Pillow knows more: for PostScript it starts another program, and a
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
_ORIENTATION: Final = 0x0112
_ON_ITS_SIDE: Final = range(5, 9)
"""Values of EXIF's orientation for a photo whose height is its width."""


def read_images(paths: Sequence[Path], size: tuple[int, int], mode: str, *, named: bool = False) -> NDArray[np.uint8]:
    """All images, scaled to ``size`` (height, width); ``mode`` is gray (1 channel) or color (3).

    Each is read as viewers show it: upright, and over white where it is transparent. Images with 16 bits a pixel, as
    X-rays often are, keep the upper 8. Raises DataError for one that cannot be read, which quotes the file's name only
    where it may be ``named``, as it may be a patient's; ConfigError where Pillow is not installed.
    """
    height, width = size

    def scaled(image: "Image.Image") -> NDArray[np.uint8]:
        plain = _eight_bits(_as_viewed(image)).convert(_MODES[mode])
        resized = plain.resize((width, height), _pillow().Resampling.BILINEAR)
        return np.asarray(resized, dtype=np.uint8).reshape(height, width, -1).transpose(2, 0, 1)

    pixels = np.empty((len(paths), 3 if mode == "color" else 1, height, width), dtype=np.uint8)
    for number, one in enumerate(_of_each(paths, scaled, named)):
        pixels[number] = one
    return pixels


def check_room(paths: Sequence[Path], size: tuple[int, int], mode: str) -> None:
    """Raise DataError for images of a study that stand for far more memory than their files have bytes.

    The study's author sets their size: a thousand images of one pixel can be scaled to 50 GB.
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

    Reads their headers alone. Raises like ``read_images``.
    """

    def look(image: "Image.Image") -> tuple[tuple[int, int], str]:
        # Pillow's own method of PNG files would read the pixels.
        turned = _pillow().Image.getexif(image).get(_ORIENTATION, 1) in _ON_ITS_SIDE
        return (image.width, image.height) if turned else (image.height, image.width), image.mode

    looks = [*_of_each(paths, look, named)]
    sizes, modes = Counter(size for size, _ in looks), {mode for _, mode in looks}
    (height, width), _ = max(sizes.items(), key=lambda found: (found[1], found[0]))
    shrink = min(1.0, _LARGEST_USUAL / max(height, width))
    size = max(1, round(height * shrink)), max(1, round(width * shrink))
    return ImageForm(size, "gray" if all(map(_is_gray, modes)) else "color")


def _is_gray(mode: str) -> bool:
    return mode in _GRAY or mode.startswith("I")


def _of_each(paths: Sequence[Path], look: "Callable[[Image.Image], T]", named: bool) -> Iterator[T]:
    """Apply ``look`` to each opened image in turn. Raises like ``read_images``."""
    opened = _pillow().open
    for number, path in enumerate(paths):
        try:
            with opened(path, formats=_FORMATS) as image:
                found = look(image)
        except Exception:  # Pillow raises whatever a damaged file leads its decoders to
            raise _damaged(paths, number, named) from None
        yield found


def _pillow() -> "ModuleType":
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            "folders of images need Pillow, the extra 'images': pip install -c constraints.txt -e '.[images]'"
        ) from None
    return Image


def _as_viewed(image: "Image.Image") -> "Image.Image":
    """The image turned as its camera says, and over white where it is transparent; gray ones stay gray."""
    from PIL import ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    if not image.has_transparency_data or image.mode.startswith("I"):
        return image
    ground: Image.Image = _pillow().new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("L" if _is_gray(image.mode) else "RGB")


def _damaged(paths: Sequence[Path], number: int, named: bool) -> DataError:
    """The error for the image at this position, which counts within its own folder."""
    folder = paths[number].parent
    place = sum(path.parent == folder for path in paths[: number + 1])
    which = f"the image {quoted(paths[number].name)}" if named else f"image {place}, by name,"
    return DataError(
        f"cannot read {which} in {folder}: it is damaged or of another kind, so replace it or take it away"
    )


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """The image with the upper byte of 16-bit pixels, which Pillow would clip. Raises ValueError for other pixels."""
    if image.mode == "F":
        raise ValueError("pixels must be whole numbers")
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image)
    if values.size and (values.min() < 0 or values.max() > np.iinfo(np.uint16).max):
        raise ValueError("pixels must have 16 bits at most")
    return _pillow().fromarray((values >> 8).astype(np.uint8))  # type: ignore[no-any-return]


def images_in(folder: Path) -> list[Path]:
    """The image files right in a folder, by name. Raises DataError if there are none."""
    found = images_among(listed_in(folder))
    if not found:
        raise DataError(f"no images in {folder}: it must hold files such as {', '.join(_SUFFIXES[:3])}")
    return found


@dataclass(frozen=True)
class LabeledImages:
    """The images in a folder's subfolders, which are named after their class, and the class of each."""

    folder: Path
    paths: Sequence[Path]
    names: Sequence[str]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Labeled images of a folder. Raises DataError if there are none."""
        classes = [path for path in listed_in(folder) if path.is_dir()]
        found = {path: class_name(inner.name) for inner in classes for path in images_among(listed_in(inner))}
        if not found:
            raise DataError(f"no images in {folder}: it must hold a folder for each class, with images in it")
        return cls(folder, [*found], [*found.values()])

    @property
    def unused(self) -> int:
        """Number of files in the folder that are not among these images."""
        left = _unused(self.folder, {*self.paths})
        return sum(path.is_file() or sum(map(Path.is_file, path.rglob("*"))) for path in left)

    def take(self, rows: NDArray[np.intp]) -> "LabeledImages":
        """The images at these positions."""
        return LabeledImages(self.folder, [self.paths[row] for row in rows], [self.names[row] for row in rows])

    def group_names(self, pattern: str) -> list[str]:
        """The group in each file's name, see ``GroupedImages``; empty without a pattern.

        Raises DataError for names that say none, which quotes none of them.
        """
        if not pattern:
            return []
        found = [re.search(pattern, path.name) for path in self.paths]
        names = [match.group(1) for match in found if match and match.group(1)]
        if without := len(found) - len(names):
            raise DataError(
                f"group-pattern = {quoted(pattern)} finds no group in the names of {count(without, 'image')} of "
                f"{len(found)} in {self.folder}: change the pattern, or rename the files"
            )
        return names

    def groups(self, pattern: str) -> Groups | None:
        """Groups as numbers ``(n,)``; None without a pattern."""
        return np.unique(self.group_names(pattern), return_inverse=True)[1].astype(np.int64) if pattern else None


def images_among(paths: Iterable[Path]) -> list[Path]:
    """Files that are images by their names."""
    return [path for path in paths if path.suffix.lower() in _SUFFIXES and path.is_file()]


def listed_in(folder: Path) -> list[Path]:
    """Paths in a folder without hidden ones, in the same order on every system. Raises DataError."""
    if not folder.is_dir():
        return []
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {error.strerror}") from None
    return sorted(found, key=lambda path: unicodedata.normalize("NFC", path.name))


_SYSTEMS: Final = "__"
"""Prefix of folders that archives of other systems leave behind."""
_UNUSED: Final = ("group", "text", "categories", "leave-out", "missing", "separator", "dates")
"""Keys of ``data.toml`` that are for tables alone."""
_OF_TABLES: Final = ("label-column", "text-columns", "group-column")
"""Settings of a run that are for tables alone."""


def holds_images(folder: Path) -> bool:
    """Whether a folder is one of images: it has a folder ``public``. Raises DataError for a table next to it."""
    public = folder / PUBLIC
    if not public.is_dir() or (holds_tables(public) and not images_among(listed_in(public))):
        return False
    tables = [path.name for path in listed_in(folder) if path.is_file() and path.stem.split(".")[0] == PUBLIC]
    if tables:
        what = f"{folder} has both a folder {PUBLIC} and {quoted(tables[0])}"
        raise DataError(f"{what}: keep the public set as images or as a table")
    return True


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds folders of images as described above; ``data.toml`` in it may say their form.

    Silos without a test folder hold ``test-fraction`` of their images out. Raises ConfigError for settings of tables,
    DataError for folders and images that cannot be used, by the folder's name.
    """
    folder = Path(config.data_dir)
    settings = TableSettings.of_folder(folder)
    of_tables = [key for key in _OF_TABLES if getattr(config, key.replace("-", "_"))]
    of_tables += [key for key in settings.given if key in _UNUSED] + ["outcome"] * (config.outcome != "class")
    if of_tables:
        raise ConfigError(
            f"{of_tables[0]} is for tables, and {folder} holds images, whose classes are names of folders: leave it out"
            f"; which images belong together, group-pattern under [images] in {folder / DATA_FILE} says"
        )
    pattern = settings.images.group_pattern
    public = images_in(folder / PUBLIC)
    form, notes = _form(settings, public, folder)
    silos, tests = _silos(folder)
    found = {silo: LabeledImages.of(path) for silo, path in silos.items()}
    held_out = {silo: LabeledImages.of(path) for silo, path in tests.items()}
    classes = _classes(found.values())

    def read(labeled: LabeledImages) -> Examples:
        return Examples(read_images(labeled.paths, *form, named=True), encode_labels(labeled.names, classes))

    parts = []
    for silo, labeled in found.items():
        groups, rng = labeled.groups(pattern), generator(config.seed, "split", silo)
        if test := held_out.get(silo):
            _check_test(labeled, test, pattern, classes)
            parts.append(SiloData(silo, read(labeled), read(test), groups, test.groups(pattern)))
        else:
            parts.append(split_silo(silo, read(labeled), groups, config.test_fraction, rng))
    used = {*public, *(path for labeled in (*found.values(), *held_out.values()) for path in labeled.paths)}
    if unused := unused_in(folder, used):
        notes += (unused,)
    return FederatedDataset(
        name=str(folder),
        schema=Schema(classes, images=form),
        public=PublicSet(read_images(public, *form, named=True)),
        silos=tuple(parts),
        test=pool([part.test for part in parts]),
        notes=notes,
    )


def _check_test(trained: LabeledImages, tested: LabeledImages, pattern: str, classes: Sequence[str]) -> None:
    """Raise DataError where a group is both trained on and tested with, and for classes that no silo has."""
    if unknown := sorted({*tested.names} - {*classes}):
        raise DataError(
            f"{tested.folder} has the class {listed(unknown, 3)}, which no silo is trained on: there are "
            f"{listed(classes)}"
        )
    if both := {*trained.group_names(pattern)} & {*tested.group_names(pattern)}:
        raise DataError(
            f"images of {count(len(both), 'group')} are both in {trained.folder} and in {tested.folder}: keep all "
            "images of a group in one of them"
        )


def _form(settings: FolderTables, public: Sequence[Path], folder: Path) -> tuple[ImageForm, tuple[str, ...]]:
    """Form for reading images, and a sentence on it where ``data.toml`` gives none."""
    images = settings.images
    if images.size and images.mode:
        return ImageForm(images.size, images.mode), ()
    usual = usual_form(public, named=True)
    form = ImageForm(images.size or usual.size, images.mode or usual.mode)
    height, width = form.size
    return form, (
        f"images are read with {height} x {width} pixels in {form.mode}, by those of {folder / PUBLIC}: for another "
        f"form write size = [{height}, {width}] and mode = '{form.mode}' under [images] in {folder / DATA_FILE}",
    )


def _silos(folder: Path) -> tuple[dict[SiloName, Path], dict[SiloName, Path]]:
    """The folders of silos, and of their test sets, by silo."""
    folders = [
        path
        for path in listed_in(folder)
        if path.is_dir() and path.name != PUBLIC and not path.name.startswith(_SYSTEMS)
    ]
    tests = {path.name[: -len(TEST)]: path for path in folders if path.name.lower().endswith(TEST)}
    silos = {path.name: path for path in folders if not path.name.lower().endswith(TEST)}
    if not silos:
        raise DataError(
            f"no silo's folder in {folder}: next to {PUBLIC} there must be one for each silo, with a folder for each "
            "class"
        )
    for silo, path in tests.items():
        if silo not in silos:
            raise DataError(f"{quoted(path.name)} in {folder} is the test set of no silo: {suggest(silo, silos)}")
    return silos, tests


def _classes(found: Iterable[LabeledImages]) -> tuple[str, ...]:
    """All classes of all silos. Raises DataError for one alone, two spellings, and names that hide something."""
    where: dict[str, Path] = {}
    for labeled in found:
        for name in labeled.names:
            where.setdefault(name, labeled.folder)
    classes = all_classes(set(where))
    if len(classes) == 1:
        raise DataError(f"all images of the silos are of class {quoted(classes[0])}: at least two classes are needed")
    for name, folder in where.items():
        if why := fault(name):
            raise DataError(f"a folder of a class in {folder} cannot be taken, as {why}: rename it")
    spelled = {"".join(name.casefold().split()): name for name in classes}
    if len(spelled) < len(classes):
        one = next(name for name in classes if name not in spelled.values())
        other = spelled["".join(one.casefold().split())]
        raise DataError(
            f"the classes {quoted(one)} in {where[one]} and {quoted(other)} in {where[other]} differ in case or blanks "
            "alone: name both folders alike"
        )
    return classes


def unused_in(folder: Path, used: set[Path]) -> str:
    """The files of a folder that are not among the ``used`` ones, in a few words; empty where all are."""
    unused = [str(path.relative_to(folder)) for path in _unused(folder, used)]
    return f"not used in {folder}: {listed(unused)}" if unused else ""


def _unused(folder: Path, used: set[Path]) -> Iterator[Path]:
    """Files, and folders without anything used, that nothing was read from; what systems hide is not named."""
    for path in listed_in(folder):
        if path in used or path.name == DATA_FILE:
            continue
        if path.is_dir() and any(below in used for below in path.rglob("*")):
            yield from _unused(path, used)
        else:
            yield path
