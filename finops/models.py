"""What the rim itself keeps: attempts to sign in, for a quarter of an hour."""

from django.db import models


class SignInAttempt(models.Model):
    """One attempt with a password that has not turned out right; see `finops.sign_in`."""

    name = models.CharField(max_length=150, help_text="As compared: folded, at most 150 long.")
    address = models.CharField(max_length=50, help_text="The client's, or its IPv6 network.")
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["address", "name", "at"])]

    def __str__(self) -> str:
        return f"{self.address} {self.at:%Y-%m-%d %H:%M}"
