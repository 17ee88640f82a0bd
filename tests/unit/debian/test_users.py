"""The image's user in Debian's tables."""

from slipway.debian.users import LAST_CHANGE, USER, home, passwd, shadow

TABLE = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"


def test_passwd_has_the_user_once() -> None:
    once = passwd(TABLE, USER)
    assert once == TABLE + "ray:x:1000:0:ray:/home/ray:/bin/bash\n"
    assert passwd(once, USER) == once


def test_shadow_says_no_date_of_the_build_and_no_password() -> None:
    text = shadow("root:*:20000:0:99999:7:::\n_apt:!:20001:::::\n", USER)
    assert [line.split(":")[1:3] for line in text.splitlines()] == [
        ["*", str(LAST_CHANGE)],
        ["!", str(LAST_CHANGE)],
        ["!", str(LAST_CHANGE)],
    ]


def test_home_is_writable_for_group_0() -> None:
    entries = {entry.path: entry for entry in home(USER, {".bashrc": (2, lambda: iter((b"hi",)))})}
    assert set(entries) == {
        "home/ray",
        "home/ray/.cache",
        "home/ray/.config",
        "home/ray/.local",
        "home/ray/.bashrc",
    }
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(1000, 0)}
    assert all(entry.mode & 0o060 == 0o060 for entry in entries.values())
    assert all(entry.mode & 0o7002 == 0 for entry in entries.values())
