"""What a notebook shows. Plain tables, no script, no style sheet."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable

from loadstone._core import Catalog, Placement, Plan, Sharding, Verdict
from loadstone._progress import bytes_text


def _text(value: object) -> str:
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode("utf-8"))


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    out = ["<table><thead><tr>", *(f"<th>{_text(cell)}</th>" for cell in head), "</tr></thead><tbody>"]
    for row in rows:
        out += ["<tr>", *(f"<td>{_text(cell)}</td>" for cell in row), "</tr>"]
    return "".join([*out, "</tbody></table>"])


def _pre(value: object) -> str:
    return f"<pre>{_text(value)}</pre>"


def catalog(ds: Catalog) -> str:
    rows = [(a.name, a.format, a.shape, a.dtype.name, bytes_text(a.nbytes), max(1, len(a.rows))) for a in ds.arrays]
    notes = "".join(f"<li>{_text(note)}</li>" for note in [*ds.notes, *ds.left_out])
    return _table(("array", "format", "shape", "dtype", "bytes", "files"), rows) + (f"<ul>{notes}</ul>" if notes else "")


def _smallest_shape(value: Sharding) -> tuple[int, ...] | None:
    """The smallest shape with one element in every shard; None for boxes, which carry a shape of their own."""
    if value.kind == "row_tiles":
        return (value.num_devices,)
    if value.kind != "named":
        return None
    axes = value.mesh.shape
    return tuple(
        math.prod(axes[name] for name in ((entry,) if isinstance(entry, str) else entry or ())) for entry in value.spec
    )


def sharding(value: Sharding) -> str:
    rows = [(name, size) for name, size in value.mesh.shape.items()]
    shape = _smallest_shape(value)
    picture = "" if shape is None else value.draw(shape, title="one element in each shard")._repr_svg_()
    return _pre(repr(value)) + _table(("axis", "devices"), rows) + picture


def plan(value: Plan) -> str:
    pictures = "".join(value._svg(array) for array in range(len(value.names)))
    return pictures + _pre(value)


def placement(value: Placement) -> str:
    rows = [(s.device, s.id, s.process, s.index, s.replica_id, bytes_text(s.data.nbytes)) for s in value.shards]
    return _pre(repr(value)) + _table(("device", "id", "process", "index", "replica", "bytes"), rows)


def verdict(value: Verdict) -> str:
    colour = "#2a7d2a" if value.ok else "#b00020"
    word = "proven" if value.ok else "wrong"
    return f'<b style="color:{colour}">{word}</b>' + _pre(value)
