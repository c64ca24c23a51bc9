"""Inline pictures of a page: SVG whose colours are CSS variables, so that they follow the reader's light or dark setting."""

from __future__ import annotations

import base64
import io
import re
from html import escape

from herdcli.evaluation.plots import plot_style

FONT, LARGER = "system-ui, sans-serif", 1.1  # the font is narrower than the one of the layout, so it may be larger
GREYS = 40  # grey levels of images: more than the eye distinguishes in one
_IMAGE = re.compile(r'(xlink:href|href)="data:image/png;base64,\s*([A-Za-z0-9+/=\s]+)"')


def css_variables(dark: bool) -> str:
    """Return the CSS declarations of the colours that pictures use."""
    own = ("#e6e6ec", "#17171c", "#45454f") if dark else (plot_style.INK, plot_style.PAPER, plot_style.GRID)
    names = ("--ink", "--paper", "--grid")
    series = zip(
        (f"--c{index}" for index in range(len(plot_style.COLOURS))), plot_style.LIGHTER if dark else plot_style.COLOURS, strict=True
    )
    return " ".join(f"{name}: {colour};" for name, colour in (*zip(names, own, strict=True), *series))


def inline_svg(svg: str, name: str, title: str) -> str:
    """Return a picture of `plot_list.write_figure(…, page=True)` for a page: no header, unique ids, shorter numbers, CSS colours."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _svg_header(name, title), body, count=1)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    for colour, variable in _colour_variables():
        body = body.replace(colour, f"var({variable})")
    body = _IMAGE.sub(_shrink_image, body)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", lambda size: f"font: {LARGER * float(size[1]):.3g}px {FONT}", body)
    body = re.sub(r"<defs>\s*</defs>|(?<=\n) +", "", body)
    return re.sub(r"\n\s*(?=\n|[LQCMz])", "", body)


def _svg_header(name: str, title: str) -> str:
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    words = escape(title).replace("\\", r"\\")
    return rf'<svg class="plot" {spaces} viewBox="\1" role="img" aria-labelledby="title"><title id="title">{words}</title>'.replace(
        'aria-labelledby="title"', f'aria-labelledby="{name}-title"'
    )


def _colour_variables() -> list[tuple[str, str]]:
    series = [(colour, f"--c{index}") for index, colour in enumerate(plot_style.COLOURS)]
    return [(plot_style.INK, "--ink"), (plot_style.PAPER, "--paper"), (plot_style.GRID, "--grid"), *series]


def _shrink_image(match: re.Match[str]) -> str:
    """Return a grey image with as few levels as sufficient; other images are unchanged."""
    from PIL import Image  # matplotlib, which drew the image, needs it as well

    png = base64.b64decode(match[2])
    image = Image.open(io.BytesIO(png)).convert("RGBA")
    red, green, blue, alpha = image.split()
    if red.tobytes() == green.tobytes() == blue.tobytes():
        levels = [round(round(value * (GREYS - 1) / 255) * 255 / (GREYS - 1)) for value in range(256)]
        index = red.point([round(value * (GREYS - 1) / 255) for value in range(256)])
        index.paste(GREYS, mask=alpha.point([255] * 128 + [0] * 128))  # transparent
        index = Image.frombytes("P", index.size, index.tobytes())
        shades = sorted(set(levels))
        index.putpalette([part for shade in shades for part in (shade,) * 3] + [0, 0, 0])
        image = index
        target = io.BytesIO()
        image.save(target, "PNG", optimize=True, transparency=GREYS)
        png = min(png, target.getvalue(), key=len)
    return f'{match[1]}="data:image/png;base64,{base64.b64encode(png).decode()}"'
