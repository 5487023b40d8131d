"""Parts of an SVG that is readable on light and dark pages, wherever it is embedded: it brings its own background."""

from html import escape
from typing import Final

# A page that embeds a picture as a file cannot style it: the picture asks the browser.
_STYLE: Final = """\
<style>
text { font: 14px system-ui, sans-serif; fill: #1f2933; }
.strong { font-weight: 600; }
.quiet { fill: #52606d; font-size: 12px; }
.page { fill: #ffffff; }
.box { fill: #eef2f6; stroke: #9aa5b1; }
.marked { fill: #dbeafe; stroke: #2563eb; }
.arrow { stroke: #2563eb; stroke-width: 2; fill: none; }
.head { fill: #2563eb; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; }
  .quiet { fill: #9aa5b1; }
  .page { fill: #16191d; }
  .box { fill: #262b31; stroke: #616e7c; }
  .marked { fill: #1e3a5f; stroke: #60a5fa; }
  .arrow { stroke: #60a5fa; }
  .head { fill: #60a5fa; }
}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">\
<path class="head" d="M0 0 10 5 0 10z"/></marker></defs>"""


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """The whole file; ``title`` is what screen readers say."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    page = f'<rect class="page" width="{width}" height="{height}" rx="8"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", _STYLE, page, *parts, "</svg>\n"])


def text(x: int, y: int, words: str, kind: str = "", anchor: str = "start") -> str:
    """One line; ``y`` is its base line."""
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: int, y: int, width: int, height: int, kind: str = "box") -> str:
    """A rectangle."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}"/>'


def arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    """A line with a head at its end."""
    return f'<path class="arrow" marker-end="url(#head)" d="M{x} {y} {to_x} {to_y}"/>'
