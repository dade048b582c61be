"""The choice of the ledger, and where rows go."""

import pytest

from finops.ledger import which


def test_the_own_ledger_is_used_unless_told_otherwise() -> None:
    assert which.ledger_name() == "default"
    with which.use_ledger("sample"):
        assert which.ledger_name() == "sample"
        with which.use_ledger("default"):
            assert which.ledger_name() == "default"
        assert which.ledger_name() == "sample"
    assert which.ledger_name() == "default"


def test_an_unknown_ledger_is_refused() -> None:
    with pytest.raises(ValueError, match="no ledger 'other'"), which.use_ledger("other"):  # type: ignore[arg-type]
        pass


@pytest.mark.django_db(databases=["default", "sample"])
def test_users_and_sessions_stand_in_the_own_database_only() -> None:
    from django.db import connections

    with which.use_ledger("sample"):
        from django.contrib.auth.models import User

        User.objects.create_user("ada")
        assert User.objects.using("default").filter(username="ada").exists()
    tables = connections["sample"].introspection.table_names()
    assert "auth_user" not in tables
    assert "django_session" not in tables


@pytest.mark.django_db(databases=["default", "sample"])
def test_atomic_opens_a_transaction_on_the_ledger_in_use() -> None:
    from django.db import connections

    with which.use_ledger("sample"), which.atomic():
        assert connections["sample"].savepoint_ids
        assert not connections["default"].savepoint_ids
