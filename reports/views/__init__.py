"""The pages. A view translates, calls one function, and translates back."""
