"""Pure arithmetic: values in, values out. No Django, no clock, no socket, no settings."""
