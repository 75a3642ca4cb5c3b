#!/usr/bin/env python3
"""Draws every icon of the app: an over-door window, the transom, as SVG, PNG, ICNS and ICO.

    python3 icons/render.py        # needs rsvg-convert (librsvg2-bin)

The drawings are written here, not traced: edit this file and run it again; what it writes is
committed, so a build needs neither Python nor rsvg-convert.
"""

import math
import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).parent


def fanlight(cx, base, outer, inner, stroke, color, lit=(), rays=4):
    """Half a wheel over a sill: `rays` panes between two arcs, those in `lit` filled."""
    at = lambda r, a: (cx - r * math.cos(a), base - r * math.sin(a))
    parts = []
    for pane in lit:
        a, b = math.pi * pane / rays, math.pi * (pane + 1) / rays
        (x1, y1), (x2, y2), (x3, y3), (x4, y4) = at(outer, a), at(outer, b), at(inner, b), at(inner, a)
        parts.append(
            f'<path fill="{color}" d="M{x1:.2f} {y1:.2f}A{outer} {outer} 0 0 1 {x2:.2f} {y2:.2f}'
            f'L{x3:.2f} {y3:.2f}A{inner} {inner} 0 0 0 {x4:.2f} {y4:.2f}Z"/>'
        )
    line = f'fill="none" stroke="{color}" stroke-width="{stroke}" stroke-linecap="round" stroke-linejoin="round"'
    parts.append(f'<path {line} d="M{cx - outer} {base}A{outer} {outer} 0 0 1 {cx + outer} {base}Z"/>')
    parts.append(f'<path {line} d="M{cx - inner} {base}A{inner} {inner} 0 0 1 {cx + inner} {base}"/>')
    for ray in range(1, rays):
        (x1, y1), (x2, y2) = at(inner, math.pi * ray / rays), at(outer, math.pi * ray / rays)
        parts.append(f'<path {line} d="M{x1:.2f} {y1:.2f}L{x2:.2f} {y2:.2f}"/>')
    return "".join(parts)


def tray(activity, color):
    """22 units square, as the menu bar draws it. State is in the panes: dark, half lit, lit; a
    pause mark stands in the place of the panes when answers are held."""
    if activity == "held":
        line = f'fill="none" stroke="{color}" stroke-linecap="round" stroke-linejoin="round"'
        body = (
            f'<path {line} stroke-width="1.6" d="M2.2 15.6A8.8 8.8 0 0 1 19.8 15.6Z"/>'
            f'<path {line} stroke-width="2" d="M9.2 10.2V13M12.8 10.2V13"/>'
        )
    else:
        lit = {"idle": (), "loading": (0, 1), "answering": (0, 1, 2, 3)}[activity]
        if activity == "answering":
            # Panes apart by the bars' width, so that the window is still one when it is all lit.
            body = ""
            for pane in range(4):
                gap = 0.09
                a, b = math.pi * pane / 4 + gap * (pane > 0), math.pi * (pane + 1) / 4 - gap * (pane < 3)
                ai, bi = math.pi * pane / 4 + 2.2 * gap * (pane > 0), math.pi * (pane + 1) / 4 - 2.2 * gap * (pane < 3)
                p = lambda r, t: (11 - r * math.cos(t), 14.2 - r * math.sin(t))
                (x1, y1), (x2, y2), (x3, y3), (x4, y4) = p(9.2, a), p(9.2, b), p(4, bi), p(4, ai)
                body += (
                    f'<path fill="{color}" d="M{x1:.2f} {y1:.2f}A9.2 9.2 0 0 1 {x2:.2f} {y2:.2f}'
                    f'L{x3:.2f} {y3:.2f}A4 4 0 0 0 {x4:.2f} {y4:.2f}Z"/>'
                )
            body += f'<path fill="{color}" d="M8.4 14.2A2.6 2.6 0 0 1 13.6 14.2Z"/>'
            body += f'<rect x="1.4" y="15.6" width="19.2" height="1.7" rx=".85" fill="{color}"/>'
        else:
            body = fanlight(11, 15.6, 8.8, 3.2, 1.5, color, lit)
    # In the middle of the bar's height.
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="22" height="22" viewBox="0 0 22 22">'
        f'<g transform="translate(0 -.2)">{body}</g></svg>\n'
    )


def app():
    """1024 units: the platform's rounded square, dusk above, a lit window in it."""
    panes = ""
    cx, base = 512, 668
    for pane in range(5):
        gap_o, gap_i = 0.030, 0.075
        a0, b0 = math.pi * pane / 5, math.pi * (pane + 1) / 5
        ao, bo = a0 + gap_o * (pane > 0), b0 - gap_o * (pane < 4)
        ai, bi = a0 + gap_i * (pane > 0), b0 - gap_i * (pane < 4)
        p = lambda r, t: (cx - r * math.cos(t), base - r * math.sin(t))
        (x1, y1), (x2, y2), (x3, y3), (x4, y4) = p(300, ao), p(300, bo), p(128, bi), p(128, ai)
        panes += (
            f'<path d="M{x1:.1f} {y1:.1f}A300 300 0 0 1 {x2:.1f} {y2:.1f}L{x3:.1f} {y3:.1f}'
            f'A128 128 0 0 0 {x4:.1f} {y4:.1f}Z"/>'
        )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="1024" height="1024" viewBox="0 0 1024 1024">
<defs>
<linearGradient id="wall" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#3b4a6b"/><stop offset="1" stop-color="#1b2438"/></linearGradient>
<radialGradient id="light" gradientUnits="userSpaceOnUse" cx="512" cy="668" r="310"><stop offset=".2" stop-color="#fff3d6"/><stop offset="1" stop-color="#ffc766"/></radialGradient>
<radialGradient id="glow" gradientUnits="userSpaceOnUse" cx="512" cy="640" r="430"><stop offset=".4" stop-color="#ffc766" stop-opacity=".30"/><stop offset="1" stop-color="#ffc766" stop-opacity="0"/></radialGradient>
</defs>
<rect x="100" y="100" width="824" height="824" rx="186" fill="url(#wall)"/>
<rect x="100" y="100" width="824" height="824" rx="186" fill="url(#glow)"/>
<rect x="103" y="103" width="818" height="818" rx="183" fill="none" stroke="#fff" stroke-opacity=".10" stroke-width="6"/>
<g fill="url(#light)">{panes}<path d="M424 668A88 88 0 0 1 600 668Z"/></g>
<rect x="196" y="702" width="632" height="44" rx="22" fill="#fff3d6"/>
</svg>
"""


def png(svg, pixels, to):
    command = ["rsvg-convert", "-w", str(pixels), "-h", str(pixels), "-o", str(to)]
    subprocess.run(command, input=svg.encode(), check=True)


def icns(images, to):
    """Apple's container: a four-letter kind for each size, with a PNG in it."""
    kinds = {16: ["icp4"], 32: ["icp5", "ic11"], 64: ["ic12"], 128: ["ic07"], 256: ["ic08", "ic13"], 512: ["ic09", "ic14"], 1024: ["ic10"]}
    body = b""
    for size, names in kinds.items():
        for name in names:
            body += name.encode() + struct.pack(">I", len(images[size]) + 8) + images[size]
    to.write_bytes(b"icns" + struct.pack(">I", len(body) + 8) + body)


def ico(images, sizes, to):
    head, body = struct.pack("<HHH", 0, 1, len(sizes)), b""
    for size in sizes:
        offset = 6 + 16 * len(sizes) + len(body)
        side = size % 256
        head += struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(images[size]), offset)
        body += images[size]
    to.write_bytes(head + body)


def main():
    for activity in ["idle", "loading", "answering", "held"]:
        # A template on a Mac: only its shape counts. Elsewhere panels are dark or light, and this
        # gray is seen on both.
        (HERE / f"tray-{activity}.svg").write_text(tray(activity, "#000"))
        png(tray(activity, "#000"), 44, HERE / f"tray-{activity}.png")
        png(tray(activity, "#a9aeb8"), 44, HERE / f"tray-{activity}-gray.png")
    (HERE / "app.svg").write_text(app())
    images = {}
    for size in [16, 32, 64, 128, 256, 512, 1024]:
        name = {512: "app.png", 256: "128x128@2x.png"}.get(size, f"{size}x{size}.png")
        png(app(), size, HERE / name)
        images[size] = (HERE / name).read_bytes()
    icns(images, HERE / "app.icns")
    ico(images, [16, 32, 64, 256], HERE / "app.ico")
    for size in [16, 64, 1024]:
        (HERE / f"{size}x{size}.png").unlink()


if __name__ == "__main__":
    main()
