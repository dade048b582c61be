"""Signing in: the pause after wrong passwords, what the trail tells, and bodies that are too large."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.utils import timezone

from finops.models import SignInAttempt
from finops.sign_in import MOST_BY_ADDRESS, MOST_BY_NAME, PAUSE, address_of, attempted
from finops.trail.models import Entry
from finops.trail.operations import verify
from reports.roles import ADMIN, AUDITOR, ensure_groups

pytestmark = pytest.mark.django_db(databases=["default", "sample"])
PASSWORD = "a long enough one"


@pytest.fixture
def ada() -> User:
    ensure_groups()
    return User.objects.create_user("Ada", password=PASSWORD)


def wrong(client: Client, name: str = "Ada") -> int:
    return client.post("/login/", {"username": name, "password": "hunter2"}).status_code


def right(client: Client, name: str = "Ada", **more: str) -> int:
    data = {"username": name, "password": PASSWORD} | more
    return client.post("/login/", data).status_code


def test_ten_wrong_passwords_make_even_the_right_one_wait(ada: User) -> None:
    client = Client()
    assert [wrong(client) for _ in range(MOST_BY_NAME)] == [200] * MOST_BY_NAME
    answer = client.post("/login/", {"username": "Ada", "password": PASSWORD})
    assert answer.status_code == 429
    assert "Wait 15 minutes" in answer.content.decode()
    assert "_auth_user_id" not in client.session
    assert right(client, " aDA ") == 429  # no way round by spelling
    assert Client(REMOTE_ADDR="10.1.1.1").post(
        "/login/", {"username": "Ada", "password": PASSWORD}
    ).status_code == 302  # nobody locks another person out from elsewhere  # fmt: skip


def test_the_pause_ends(ada: User) -> None:
    client = Client()
    for _ in range(MOST_BY_NAME):
        wrong(client)
    SignInAttempt.objects.update(at=timezone.now() - PAUSE)
    assert right(client) == 302
    assert not SignInAttempt.objects.exists()


def test_the_right_password_begins_the_count_anew(ada: User) -> None:
    client = Client()
    for _ in range(3):
        assert [wrong(client) for _ in range(MOST_BY_NAME - 1)][-1] == 200
        assert right(client) == 302


def test_one_password_tried_on_many_names_waits_too() -> None:
    now = timezone.now() - timedelta(minutes=1)
    rows = [SignInAttempt(name=f"n{n}", address="10.0.0.9", at=now) for n in range(MOST_BY_ADDRESS)]
    SignInAttempt.objects.bulk_create(rows)
    assert attempted("another", "10.0.0.9") is None
    assert attempted("another", "10.0.0.8") is not None


def test_addresses(settings: object) -> None:
    def seen(**meta: str) -> str:
        return address_of(RequestFactory().get("/", **meta))

    forged = {"REMOTE_ADDR": "192.0.2.7", "HTTP_X_FORWARDED_FOR": "1.2.3.4, 198.51.100.8"}
    assert seen(**forged) == "192.0.2.7"
    assert seen(REMOTE_ADDR="2001:db8:1:2:3::4") == "2001:db8:1:2::/64"
    assert seen(REMOTE_ADDR="::ffff:192.0.2.7") == "192.0.2.7"
    assert seen(REMOTE_ADDR="") == "unknown"
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # type: ignore[attr-defined]
    assert seen(**forged) == "198.51.100.8"


def test_the_trail_tells_who_came_and_went_and_never_what_was_typed(ada: User) -> None:
    client = Client()
    wrong(client)
    wrong(client, "hunter2 in the wrong field")
    right(client)
    client.post("/logout/")
    told = [(e.action, e.actor) for e in Entry.objects.order_by("number")]
    assert told == [
        ("sign-in failed", "Ada"),
        ("sign-in failed", "unknown name"),
        ("signed in", "Ada"),
        ("signed out", "Ada"),
    ]
    assert "hunter2" not in str(list(Entry.objects.values()))
    assert verify() == []


def test_the_next_page_is_one_of_ours(ada: User) -> None:
    for page, place in (
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/rules/", "/rules/"),
    ):
        data = {"username": "Ada", "password": PASSWORD, "next": page}
        assert Client().post("/login/", data)["Location"] == place


def test_a_session_gets_another_key_when_somebody_signs_in(ada: User) -> None:
    client = Client()
    session = client.session
    session["planted"] = "x"
    session.save()
    before = client.cookies["sessionid"] = session.session_key
    right(client)
    assert client.session.session_key != before
    assert client.cookies["sessionid"]["httponly"]


def test_people_change_their_own_password_and_their_other_sessions_end(ada: User) -> None:
    here, elsewhere = Client(), Client()
    right(here)
    right(elsewhere)
    words = {"old_password": PASSWORD, "new_password1": "only I know this", "new_password2": "only I know this"}  # fmt: skip
    assert here.post("/password/", words).status_code == 302
    ada.refresh_from_db()
    assert ada.check_password("only I know this")
    assert here.get("/password/").status_code == 200
    assert elsewhere.get("/password/").status_code == 302
    assert Entry.objects.filter(action="password changed", actor="Ada").count() == 1


def test_a_large_body_is_refused_before_it_is_read() -> None:
    class Unread:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

        readline = read

    large = 17 * 2**20
    for path in ("/login/", "/imports/", "/baselines/", "/people/"):
        answer = Client().generic(
            "POST", path, CONTENT_LENGTH=str(large), **{"wsgi.input": Unread()}
        )
        assert answer.status_code == 413, path


@pytest.mark.parametrize(("role", "status"), [(ADMIN, 200), (AUDITOR, 413)])
def test_large_files_are_taken_from_those_who_may_hand_them_over(role: str, status: int) -> None:
    from django.contrib.auth.models import Group
    from django.core.files.uploadedfile import SimpleUploadedFile

    ensure_groups()
    user = User.objects.create_user("Eve", password=PASSWORD)
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    data = {"format": "none such", "chosen": SimpleUploadedFile("a.csv", b"x" * (17 * 2**20))}
    assert client.post("/imports/", data).status_code == status


def test_answers_to_people_are_kept_by_no_cache(ada: User) -> None:
    client = Client()
    client.force_login(ada)
    for path in ("/", "/password/", "/reports/"):
        assert "no-store" in client.get(path)["Cache-Control"]


def test_a_form_without_its_token_gets_a_page_of_ours(ada: User) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "Ada"})
    assert answer.status_code == 403
    assert "This form could not be taken" in answer.content.decode()
