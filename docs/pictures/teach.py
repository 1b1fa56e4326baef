#!/usr/bin/env python3
"""Draws the pictures that explain what is measured: each from a small model, no measurement. Writes SVG files beside itself."""

import pathlib

HERE = pathlib.Path(__file__).parent
INK, SOFT, BLUE, RED, GREEN = "#1c2126", "#56616b", "#0b62b8", "#c22f3d", "#1b7f4b"


class Picture:
    """One SVG of 640 x 240, with white paper for dark pages."""

    def __init__(self, name, title):
        self.path, self.parts = HERE / f"{name}.svg", []
        self.text(16, 22, title, size=15, bold=True)

    def text(self, x, y, words, color=INK, size=12, bold=False, anchor="start"):
        weight = "600" if bold else "400"
        self.parts.append(f'<text x="{x}" y="{y}" fill="{color}" font-size="{size}" font-weight="{weight}" '
                          f'text-anchor="{anchor}">{words}</text>')

    def line(self, points, color=INK, width=1.5, dash=""):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}" stroke-dasharray="{dash}"/>')

    def box(self, x, y, wide, high, color):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high}" fill="{color}" opacity="0.85"/>')

    def save(self):
        body = "\n".join(self.parts)
        self.path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 240" font-family="system-ui, sans-serif">\n'
                             f'<rect width="640" height="240" fill="#fff"/>\n{body}\n</svg>\n')


def coordinated_omission():
    """A server that answers in 1 ms and stands still from 100 to 200 ms; messages every 10 ms, or one after the other."""
    stall = (100, 200)
    answered = lambda sent: stall[1] + 1 if stall[0] <= sent < stall[1] else sent + 1
    picture = Picture("coordinated-omission", "A stall of 100 ms, seen by a schedule and by a closed loop")
    x = lambda ms: 120 + ms * 1.5
    for y, name, sends in ((80, "every 10 ms", range(0, 300, 10)), (150, "closed loop", None)):
        picture.text(16, y + 4, name)
        if sends is None:
            sends, now = [], 0
            while now < 300:
                sends.append(now)
                now = max(answered(now), now + 10)
        for sent in sends:
            late = answered(sent) - sent
            picture.line([(x(sent), y + 14), (x(sent), y + 14 - min(late, 100) * 0.4)], RED if late > 5 else BLUE, 3)
        slow = sum(answered(sent) - sent > 5 for sent in sends)
        picture.text(x(300) + 4, y + 4, f"{slow} slow", RED if slow else INK)
    picture.box(x(stall[0]), 190, 100 * 1.5, 8, SOFT)
    picture.text(x(stall[0]), 216, "the server stands still", SOFT)
    picture.text(x(0), 216, "time, 300 ms", SOFT)
    picture.save()


def dispersion():
    """Five packets back to back, of 12 us each on a fast link, of 40 us each on the narrow one."""
    picture = Picture("dispersion", "A train is stretched by the narrow link; the gap tells its rate")
    for y, name, gap, start in ((70, "sent", 24, 0), (120, "narrow link", 80, 20), (170, "received", 80, 40)):
        picture.text(16, y + 15, name)
        wide = 80 if name == "narrow link" else 24
        for n in range(5):
            picture.box(120 + start + n * gap, y, wide - 3, 20, RED if wide > 24 else BLUE)
    picture.line([(160, 205), (240, 205)], GREEN, 2)
    picture.text(120, 225, "gap = packet size / rate of the narrow link", GREEN)
    picture.save()


def full_queue():
    """A sender of 60 Mbit/s, from 2 to 8 s, into 50 Mbit/s with a queue of 5 MB that drains afterwards."""
    picture = Picture("full-queue", "More is sent than the link carries: delay first, then loss")
    queue, points, lost, step = 0.0, [], [], 0.05
    for n in range(int(12 / step)):
        at = n * step
        queue += ((60 if 2 <= at < 8 else 20) - 50) * step / 8
        lost.append((at, max(0.0, queue - 5.0)))
        queue = min(max(queue, 0.0), 5.0)
        points.append((at, queue * 8 / 50 * 1000))
    x, y = (lambda s: 60 + s * 46), (lambda ms: 200 - ms * 0.17)
    picture.line([(x(at), y(ms)) for at, ms in points], BLUE, 2)
    first = next((at for at, bytes_ in lost if bytes_ > 0), None)
    if first:
        picture.line([(x(first), 200), (x(first), 40)], RED, 1.5, "4 3")
        picture.text(x(first) + 5, 48, "the queue is full: loss begins", RED)
    picture.line([(60, 200), (620, 200)], SOFT)
    picture.text(16, 40, f"delay in the queue, up to {max(ms for _, ms in points):.0f} ms", BLUE)
    picture.text(x(2), 218, "sending begins", SOFT)
    picture.text(x(8), 218, "ends; the queue drains", SOFT)
    picture.save()


def clock_bounds():
    """Four stamps of an exchange: the other clock's offset lies within half of the round trip less the turnaround."""
    picture = Picture("clock-bounds", "Four stamps bound the difference of two clocks")
    picture.line([(100, 80), (600, 80)], SOFT)
    picture.line([(100, 180), (600, 180)], SOFT)
    picture.text(16, 84, "this host")
    picture.text(16, 184, "server")
    for begin, end in (((160, 80), (260, 180)), ((320, 180), (420, 80))):
        picture.line([begin, end], BLUE, 2)
    for x, y, name in ((160, 72, "t1 sent"), (260, 198, "t2 received"), (320, 198, "t3 sent"), (420, 72, "t4 received")):
        picture.text(x, y, name, BLUE, anchor="middle")
    picture.text(16, 228, "offset = ((t2 - t1) + (t3 - t4)) / 2, right to ±((t4 - t1) - (t3 - t2)) / 2: no one-way delay is told without it", INK)
    picture.save()


def capacity():
    """Algorithm B on a link of 100 Mbit/s with a queue of 100 ms: a report every 50 ms, of the rate before it."""
    picture = Picture("capacity", "The rate rises until the queue fills; the best second counts")
    link, queue, row, bad, offered, got, step = 100.0, 0.0, 0, 0, [], [], 0.05
    for n in range(int(6 / step)):
        arrived = min(link, row + queue / step) if row + queue / step > link else row
        queue = max(0.0, queue + (row - link) * step) if row + queue / step > link else 0.0
        delay = queue / link * 1000
        lost = max(0.0, queue - link * 0.1)
        queue -= lost
        offered.append((n * step, row))
        got.append((n * step, arrived))
        if lost > 0.1 or delay > 90:
            bad += 1
            row = max(0, row - (30 if bad == 3 else 1))
        elif delay < 30:
            row += 10 if bad < 3 else 1
            bad = 0 if bad < 3 else bad
    x, y = (lambda s: 60 + s * 92), (lambda mbit: 200 - mbit * 1.15)
    seconds = [sum(rate for at, rate in got if k <= at < k + 1) * step for k in range(6)]
    best = max(range(6), key=lambda k: seconds[k])
    picture.box(x(best), y(seconds[best]), 92, int(200 - y(seconds[best])), "#d8efe2")
    picture.line([(60, y(link)), (620, y(link))], SOFT, 1, "4 3")
    picture.line([(x(at), y(rate)) for at, rate in offered], BLUE, 2)
    for k, rate in enumerate(seconds):
        picture.line([(x(k), y(rate)), (x(k + 1), y(rate))], GREEN, 3)
    picture.line([(60, 200), (620, 200)], SOFT)
    picture.text(16, y(link) + 4, "link", SOFT)
    picture.text(x(1.2), 48, "offered, changed at each report", BLUE)
    picture.text(x(best) + 8, 190, f"best second: {seconds[best]:.0f} Mbit/s", GREEN)
    picture.text(60, 218, "time, 6 s", SOFT)
    picture.save()


for draw in (coordinated_omission, dispersion, full_queue, clock_bounds, capacity):
    draw()
