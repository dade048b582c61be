"""What the operator sets: accepted, or refused with a sentence that helps."""

import os
import stat
import threading
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from finops import environment
from tests.house.product import manage


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Auckland"]
)
def test_zones_of_whole_hours_are_taken(name: str) -> None:
    assert environment.organisation_zone(name).key == name


# Offsets of half and quarter hours, one of them (Lord Howe) in half of the year only.
@pytest.mark.parametrize(
    "name", ["Asia/Kolkata", "Asia/Kathmandu", "Australia/Adelaide", "Australia/Lord_Howe"]
)
def test_other_zones_are_refused_by_name(name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"HEADROOM_TIME_ZONE='{name}'.*whole hours"):
        environment.organisation_zone(name)


@pytest.mark.parametrize("name", ["Europe/Berln", "", "../etc/passwd", "+01:00"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="no IANA time zone"):
        environment.organisation_zone(name)


@pytest.mark.parametrize("code", ["USD", "EUR", ""])
def test_a_currency_is_a_code(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_REPORT_CURRENCY", code)
    assert environment.currency("HEADROOM_REPORT_CURRENCY") == code


@pytest.mark.parametrize("code", ["usd", "US", "Dollar", "EU1", "€€€"])
def test_what_is_no_currency_is_refused(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_REPORT_CURRENCY", code)
    with pytest.raises(ImproperlyConfigured, match=r"HEADROOM_REPORT_CURRENCY.*currency's code"):
        environment.currency("HEADROOM_REPORT_CURRENCY")


def test_a_refused_zone_stops_a_command_without_a_traceback(tmp_path: Path) -> None:
    done = manage(tmp_path / "data", "check", HEADROOM_TIME_ZONE="Asia/Kolkata")
    assert done.returncode == 2
    assert "whole hours" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_secret_key_is_made_once_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(environment.secret_key(tmp_path)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert len(keys[0]) >= 50
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["secret-key"]


def test_a_spoilt_secret_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    (tmp_path / "secret-key").write_text("short\n")
    with pytest.raises(ImproperlyConfigured, match="50 characters"):
        environment.secret_key(tmp_path)


@pytest.mark.parametrize("value", ["yes please", "2", "-1"])
def test_a_flag_is_on_or_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_X", value)
    with pytest.raises(ImproperlyConfigured, match="HEADROOM_X"):
        environment.flag("HEADROOM_X")


@pytest.mark.parametrize("value", ["0", "65536", "80a", "-1", "٨٠"])
def test_a_port_is_a_number_in_range(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_PORT", value)
    with pytest.raises(ImproperlyConfigured, match="HEADROOM_PORT"):
        environment.whole_number("HEADROOM_PORT", 8000, least=1, most=65535)


def test_a_database_url_is_taken_apart() -> None:
    found = environment.database(
        "postgresql://us%40er:p%2Fw@db.example:6432/led%20ger?sslmode=require", suffix="_sample"
    )
    assert found["NAME"] == "led ger_sample"
    assert (found["USER"], found["PASSWORD"]) == ("us@er", "p/w")
    assert (found["HOST"], found["PORT"]) == ("db.example", "6432")
    assert found["OPTIONS"] == {"sslmode": "require"}


@pytest.mark.parametrize("url", ["mysql://x/y", "postgresql://host/", "nonsense"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        environment.database(url)


def test_networks_are_named_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_STORE_NETWORKS", " 10.1.0.0/16 ,fd00::/8,")
    assert environment.networks("HEADROOM_STORE_NETWORKS") == "10.1.0.0/16,fd00::/8"
    monkeypatch.setenv("HEADROOM_STORE_NETWORKS", "10.1.0.0/16,10.1.0.1/16")
    with pytest.raises(ImproperlyConfigured, match=r"'10\.1\.0\.1/16' is no network"):
        environment.networks("HEADROOM_STORE_NETWORKS")
