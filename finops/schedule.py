"""The schedule that a new installation starts with, kept in the database.

An administrator may change or switch off any of it; what is there already is left alone, except
that the entries' time zone follows the organisation's.
"""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.db import transaction
from django_celery_beat.models import CrontabSchedule, PeriodicTask


@dataclass(frozen=True)
class Entry:
    """One line of the schedule; the times are the organisation's."""

    name: str
    task: str
    minute: str
    hour: str = "*"
    day_of_week: str = "*"
    expire_seconds: int = 3600


ENTRIES = (
    Entry("Collect readings, hourly", "finops.ledger.tasks.collect_all", "5"),
    Entry(
        "Look into the invoice folder, daily",
        "finops.ledger.tasks.look_into_invoice_folder",
        "30",
        "5",
    ),
    Entry("Make due kept sums anew, daily", "finops.ledger.tasks.sum_again", "0", "5"),
    Entry("Fix new rows in the trail, daily", "finops.ledger.tasks.fix_rows", "40", "4"),
    Entry("Look at sealed weeks again, daily", "reports.tasks.look_at_sealed_weeks", "45", "5"),
    Entry("Close the week, Monday", "reports.tasks.close_week", "0", "6", "1", 12 * 3600),
)


@transaction.atomic
def seed(zone: ZoneInfo) -> None:
    """Adds the entries that are missing, and moves all of them to the time zone."""
    for entry in ENTRIES:
        schedule, _ = CrontabSchedule.objects.get_or_create(
            minute=entry.minute,
            hour=entry.hour,
            day_of_week=entry.day_of_week,
            day_of_month="*",
            month_of_year="*",
            timezone=zone,
        )
        task, new = PeriodicTask.objects.get_or_create(
            name=entry.name,
            defaults={
                "task": entry.task,
                "crontab": schedule,
                "expire_seconds": entry.expire_seconds,
            },
        )
        if not new and task.crontab and task.crontab.timezone != zone:
            task.crontab = _in_zone(task.crontab, zone)
            task.save()


def _in_zone(schedule: CrontabSchedule, zone: ZoneInfo) -> CrontabSchedule:
    fields = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
    same = {field: getattr(schedule, field) for field in fields}
    return CrontabSchedule.objects.get_or_create(**same, timezone=zone)[0]
