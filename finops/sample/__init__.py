"""The sample organisation: files of an invented company whose true figures are known.

`generator` writes the files and keeps the truth; `books` hands them in by the same way as a
customer's files go and closes the newest complete week; `demo` does both in the sample ledger.
"""
