"""Progress over time as the points of one small drawing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast_storage.core.times import moment
from holdfast_storage.results import Course

WIDTH, HEIGHT = 640, 120
_TOP = 8


@dataclass(frozen=True, slots=True)
class Chart:
    """What the drawing consists of, and what it says to those who do not see it."""

    line: str
    area: str
    marks: list[tuple[float, str]]
    first: str
    last: str
    done: int
    total: int


def chart_of(course: Course, total: int) -> Chart | None:
    """Lay out the steps done against the time they were done at; None where there is no line yet."""
    points = course.points
    if len(points) < 2:
        return None
    times = [moment(point.at) for point in points]
    done = points[-1].done
    highest = max(total, done)
    span = (times[-1] - times[0]).total_seconds() or 1.0

    def across(at: datetime) -> float:
        share = (at - times[0]).total_seconds() / span
        return round(min(1.0, max(0.0, share)) * WIDTH, 1)

    def up(count: int) -> float:
        return round(HEIGHT - (HEIGHT - _TOP) * count / highest, 1)

    # A step is done all at once: the line goes across, then up.
    corners = [f"M0 {up(points[0].done)}"]
    for at, point in zip(times[1:], points[1:], strict=True):
        corners.append(f"H{across(at)}V{up(point.done)}")
    line = "".join(corners)
    within = [mark for mark in course.milestones if times[0] <= moment(mark.at) <= times[-1]]
    return Chart(
        line=line,
        area=f"{line}V{HEIGHT}H0Z",
        marks=[(across(moment(mark.at)), mark.label or str(mark.checkpoint)) for mark in within],
        first=points[0].at,
        last=points[-1].at,
        done=done,
        total=total,
    )
