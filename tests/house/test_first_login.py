"""The administrator's first login, and the schedule a new installation gets."""

from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.test import Client
from django_celery_beat.models import PeriodicTask

from finops import first_login, schedule
from finops.celery import app, urls

pytestmark = pytest.mark.django_db(databases=["default", "sample"])


def test_the_link_signs_in_once() -> None:
    path = first_login.path_for_owner()
    assert path is not None
    first, second = Client(), Client()
    assert first.get(path).status_code == 200
    assert first.post(path).headers["Location"] == "/welcome/password/"
    assert second.post(path).status_code == 410
    assert "_auth_user_id" not in second.session


def test_a_new_link_is_given_until_there_is_a_password() -> None:
    path = first_login.path_for_owner()
    assert path is not None
    client = Client()
    client.post(path)
    assert first_login.path_for_owner() not in {None, path}
    words = {"new_password1": "a long enough one", "new_password2": "a long enough one"}
    assert client.post("/welcome/password/", words).status_code == 302
    assert first_login.path_for_owner() is None
    assert User.objects.get().check_password("a long enough one")
    assert client.get("/welcome/password/").headers["Location"] == "/"


def test_a_weak_password_is_refused() -> None:
    path = first_login.path_for_owner()
    assert path is not None
    client = Client()
    client.post(path)
    words = {"new_password1": "password", "new_password2": "password"}
    assert client.post("/welcome/password/", words).status_code == 200
    assert not User.objects.get().has_usable_password()


def test_no_link_is_given_beside_a_person_who_can_sign_in() -> None:
    User.objects.create_superuser("ada", password="a long enough one")
    assert first_login.path_for_owner() is None


def test_a_forged_or_borrowed_token_is_refused() -> None:
    path = first_login.path_for_owner()
    assert path is not None
    key, token = path.strip("/").split("/")[1:]
    reset = default_token_generator.make_token(User.objects.get())
    for other in (f"/welcome/{key}/{token[:-1]}x/", f"/welcome/{key}/{reset}/", "/welcome/x/y/"):
        assert Client().post(other).status_code == 410


def test_the_password_page_is_for_those_who_signed_in() -> None:
    answer = Client().get("/welcome/password/")
    assert answer.headers["Location"] == "/login/?next=/welcome/password/"


def test_the_schedule_is_seeded_once_and_keeps_an_administrators_changes() -> None:
    berlin, tokyo = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")
    schedule.seed(berlin)
    assert PeriodicTask.objects.filter(task__contains="tasks.").count() == 6
    weekly = PeriodicTask.objects.get(task="reports.tasks.close_week")
    assert (weekly.crontab.hour, weekly.crontab.day_of_week) == ("6", "1")
    assert weekly.crontab.timezone == berlin
    weekly.crontab.hour = "9"
    weekly.crontab.save()
    PeriodicTask.objects.filter(task__contains="collect").update(enabled=False)
    schedule.seed(tokyo)
    weekly.refresh_from_db()
    assert (weekly.crontab.hour, weekly.crontab.timezone) == ("9", tokyo)
    assert not PeriodicTask.objects.get(task__contains="collect").enabled
    assert PeriodicTask.objects.filter(task__contains="tasks.").count() == 6


def test_each_queue_gets_its_own_messages_only() -> None:
    keys = {queue.name: queue.routing_key for queue in app.conf.task_queues}
    assert keys == {name: name for name in ("default", "collect", "pdf", "parts")}


def test_a_killed_workers_task_is_sent_again() -> None:
    assert app.conf.task_acks_late
    assert app.conf.task_reject_on_worker_lost
    assert app.conf.accept_content == ["json"]


def test_the_brokers_urls() -> None:
    assert urls("unix:///tmp/x/valkey.sock") == (
        "redis+socket:///tmp/x/valkey.sock?virtual_host=0",
        "redis+socket:///tmp/x/valkey.sock?virtual_host=1",
    )
    assert urls("rediss://h:6379/0") == ("rediss://h:6379/0", "rediss://h:6379/0")
