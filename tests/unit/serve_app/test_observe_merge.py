"""Metrics of several processes in one text."""

from __future__ import annotations

from serve_app.observe.merge import merge

ONE = """# HELP a_total Things.
# TYPE a_total counter
a_total{x="1"} 3.0
a_total 4.0
# HELP b B
# TYPE b gauge
b 1
"""


def test_labels_are_added_and_families_stay_together() -> None:
    text = merge([({"role": "decode"}, ONE), ({"role": "prefill"}, ONE)])
    assert text.count("# TYPE a_total counter") == 1
    lines = text.splitlines()
    assert lines[:6] == [
        "# HELP a_total Things.",
        "# TYPE a_total counter",
        'a_total{x="1",role="decode"} 3.0',
        'a_total{role="decode"} 4.0',
        'a_total{x="1",role="prefill"} 3.0',
        'a_total{role="prefill"} 4.0',
    ]
    assert lines[-1] == 'b{role="prefill"} 1'


def test_histograms_keep_their_parts() -> None:
    text = merge([({"r": "1"}, '# TYPE h histogram\nh_bucket{le="+Inf"} 2.0\nh_sum 1.5\nh_count 2.0\n')])
    assert text == '# TYPE h histogram\nh_bucket{le="+Inf",r="1"} 2.0\nh_sum{r="1"} 1.5\nh_count{r="1"} 2.0\n'


def test_values_are_escaped_and_nothing_is_nothing() -> None:
    assert merge([({"r": 'a"b\\'}, "x 1\n")]) == 'x{r="a\\"b\\\\"} 1\n'
    assert merge([]) == ""
    assert merge([({}, "# only a comment\n\n")]) == ""


def test_braces_and_spaces_in_label_values() -> None:
    assert merge([({"r": "1"}, 'x{path="/a {b} c"} 1 1700000000\n')]) == 'x{path="/a {b} c",r="1"} 1 1700000000\n'
