"""Draws images of shapes into folders: ``python draw.py FOLDER``. Three silos, of which each has other colors."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SHAPES = ("circle", "square", "triangle")
SILOS = {"essen": (200, 60, 60), "koeln": (60, 160, 60), "ulm": (70, 80, 200)}
EACH = 8
PUBLIC = 30


def draw(shape: str, color: tuple[int, int, int], rng: np.random.Generator) -> Image.Image:
    """One shape somewhere on a noisy ground; sides of 40 to 56 pixels."""
    width, height = (int(side) for side in rng.integers(40, 57, 2))
    image = Image.fromarray(rng.integers(150, 255, (height, width, 3), dtype=np.uint8))
    radius = int(rng.integers(10, 17))
    x, y = (int(rng.integers(radius, side - radius)) for side in (width, height))
    paint = ImageDraw.Draw(image)
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        paint.ellipse(box, fill=color)
    elif shape == "square":
        paint.rectangle(box, fill=color)
    else:
        paint.polygon([(x - radius, y + radius), (x, y - radius), (x + radius, y + radius)], fill=color)
    return image


def main(folder: Path) -> None:
    """``public`` with images, and for each silo a folder for each class."""
    rng = np.random.default_rng(0)
    (folder / "public").mkdir(parents=True)
    colors = list(SILOS.values())
    for number in range(PUBLIC):
        draw(SHAPES[number % 3], colors[number // 3 % 3], rng).save(folder / "public" / f"{number:03}.png")
    for silo, color in SILOS.items():
        for shape in SHAPES:
            (folder / silo / shape).mkdir(parents=True)
            for number in range(EACH):
                draw(shape, color, rng).save(folder / silo / shape / f"{number:03}.png")
    (folder / "data.toml").write_text("[images]\nsize = [32, 32]\nmode = 'color'\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
