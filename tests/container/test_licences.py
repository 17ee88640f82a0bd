"""Licences in the image: a table of what it is made of, and the texts where the table says they are."""

from __future__ import annotations

from tests.container.docker import Container

SCRIPT = r"""
import csv, glob, sys
rows = list(csv.DictReader(open("/opt/slipway/licences.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE))
gone = [row["name"] for row in rows if not glob.glob(row["licence text in the image"])]
print(len(rows), len([row for row in rows if row["source"]]), " ".join(gone))
"""


def test_every_text_is_where_the_table_says(idle: Container) -> None:
    rows, with_source, *gone = idle.exec("python", "-c", SCRIPT).out.split()
    assert int(rows) > 300
    assert int(with_source) > 0.9 * int(rows)
    assert gone == []
